// Runs Codex against the server: the model calls apply_patch, Codex changes a file, and the model answers.
// Codex comes from npm, in a pinned version, into a folder that is removed. Skipped, with a reason, without npm, its
// registry, or a program for this machine.
//   node tests/serve/codex_test.mjs build/bin/tp-infer mpirun build/bin/write_scripted_model
import assert from 'node:assert/strict';
import { execFile, execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const PACKAGES = ['openai', '@anthropic-ai/sdk', '@openai/codex@0.171.0'];
const [program, mpirun, writeModel] = process.argv.slice(2);
const folder = mkdtempSync(join(tmpdir(), 'tp-infer-codex-'));
process.on('exit', () => rmSync(folder, {recursive: true, force: true}));
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => process.exit(1));

function skip(reason) {
  console.log(`skipped: ${reason}`);
  process.exit(77);
}

function install() {
  const options = ['--no-audit', '--no-fund', '--no-package-lock', '--ignore-scripts', '--no-update-notifier',
                   '--loglevel', 'error', '--fetch-retries', '0', '--prefix', folder, '--cache', join(folder, 'cache')];
  const npm = spawnSync('npm', ['install', ...options, ...PACKAGES], {encoding: 'utf8', timeout: 180_000, cwd: folder});
  if (npm.error?.code === 'ENOENT') skip('npm is not installed');
  if (npm.status !== 0) skip(npm.error?.message ?? `npm cannot install Codex: ${npm.stderr.trim().split('\n')[0]}`);
}

install();
const codex = join(folder, 'node_modules', '.bin', 'codex');
if (!existsSync(codex) || spawnSync(codex, ['--version']).status !== 0) skip('Codex does not run on this machine');
process.env.TP_NODE_MODULES = join(folder, 'node_modules');
const {KEY, runTests, startServer} = await import('./client_test.mjs');

// Codex's prompts have tens of thousands of bytes, and the model's context has 4096 tokens. So the template leaves out
// users' messages and the descriptions of tools.
const TEMPLATE = `{%- for tool in tools or [] %}{{ tool.function.name }} {% endfor %}
{%- for message in messages %}
{%- for call in message.tool_calls or [] %}<tool_call>{{ call.function | tojson }}</tool_call>{% endfor %}
{%- if message.role == 'tool' %}{{ message.content }}{% endif %}{% endfor %}{# <think> and </think> #}
{%- if add_generation_prompt %}
{{- '#done' if messages | selectattr('role', 'equalto', 'tool') | list else '#patch' }}{% endif %}`;
// Each part ends at a choice of the grammar, because the server itself appends text that leaves no choice.
const PATCH = ['*** Begin Patch\n*** ', 'Update File: greeting.txt\n', '@@\n', ' # A greeting\n', '-Hello\n',
               '+Good "evening" \\o/\n', '*** End Patch'];
const SCRIPTS = {
  patch: ['<think>', 'A patch.', '</think>', '<tool_call>', '{"name": "', 'apply_patch", "arguments": {', '"input": "',
          ...PATCH.map((part) => JSON.stringify(part).slice(1, -1)), '"}}', '</tool_call>'],
  done: ['The file ', 'is changed.'],
};
// Codex offers apply_patch only to models whose catalogue entry has this type of the tool.
const CATALOG = {models: [{
  slug: 'scripted', display_name: 'scripted', description: '', supported_reasoning_levels: [], shell_type: 'default',
  visibility: 'list', supported_in_api: true, priority: 0, base_instructions: 'You edit files.',
  apply_patch_tool_type: 'freeform', truncation_policy: {mode: 'tokens', limit: 10000},
  supports_parallel_tool_calls: false, context_window: 32768, experimental_supported_tools: [],
  supports_reasoning_summaries: false, support_verbosity: false}]};

const path = (name) => join(folder, name);
for (const name of ['model', 'home', 'work']) mkdirSync(path(name));
writeFileSync(path('scripts.json'), JSON.stringify(SCRIPTS));
writeFileSync(path('template.jinja'), TEMPLATE);
writeFileSync(path('catalog.json'), JSON.stringify(CATALOG));
execFileSync(writeModel, [path('model'), path('scripts.json')]);
const server = await startServer(program, mpirun, folder, ['--model', path('model'), '--model-name', 'scripted',
                                                           '--chat-template', path('template.jinja')]);
writeFileSync(path('home/config.toml'), `model = "scripted"
model_provider = "tp"
model_catalog_json = "${path('catalog.json')}"
[model_providers.tp]
name = "tp-infer"
base_url = "${server.baseURL}"
wire_api = "responses"
env_key = "TP_KEY"
`);

// Runs Codex and resolves to its output in JSON lines.
function run(prompt) {
  const args = ['exec', '--json', '--skip-git-repo-check', '--dangerously-bypass-approvals-and-sandbox', '-C',
                path('work'), prompt];
  const env = {...process.env, CODEX_HOME: path('home'), TP_KEY: KEY};
  return new Promise((resolve, reject) => {
    const child = execFile(codex, args, {env, timeout: 120_000, encoding: 'utf8'}, (error, stdout, stderr) =>
        error ? reject(new Error(`${error.message}\n${stdout}\n${stderr}\n${server.log()}`)) : resolve(stdout));
    child.stdin.end();
  });
}

const tests = {
  'codex: a patch changes a file in two turns': async () => {
    writeFileSync(path('work/greeting.txt'), '# A greeting\nHello\n');
    const events = (await run('Change the greeting.')).trim().split('\n').map((line) => JSON.parse(line));
    assert.equal(readFileSync(path('work/greeting.txt'), 'utf8'), '# A greeting\nGood "evening" \\o/\n');
    const items = events.filter(({type}) => type === 'item.completed').map(({item}) => item);
    assert.ok(items.some(({type}) => type === 'file_change'), JSON.stringify(items));
    assert.equal(items.filter(({type}) => type === 'agent_message').at(-1)?.text, 'The file is changed.');
  },
};

process.exitCode = await runTests(tests, server);
process.exit();
