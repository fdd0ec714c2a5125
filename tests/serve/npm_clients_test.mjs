// A loop of tools over three turns, with the newest clients from npm and over each of the server's APIs: the client
// libraries of OpenAI and Anthropic, Vercel's AI SDK, and LangChain. The packages go to a folder that is removed.
// Skipped, with a reason, without npm or its registry.
//   node tests/serve/npm_clients_test.mjs build/bin/tp-infer mpirun build/bin/write_scripted_model
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const PACKAGES = ['openai', '@anthropic-ai/sdk', 'ai', '@ai-sdk/openai', '@ai-sdk/openai-compatible', '@ai-sdk/anthropic',
                  '@langchain/openai', '@langchain/anthropic', '@langchain/core', 'zod'];
const [program, mpirun, writeModel] = process.argv.slice(2);
const folder = mkdtempSync(join(tmpdir(), 'tp-infer-npm-'));
process.on('exit', () => rmSync(folder, {recursive: true, force: true}));
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => process.exit(1));

function install() {
  const options = ['--no-audit', '--no-fund', '--no-package-lock', '--ignore-scripts', '--no-update-notifier',
                   '--loglevel', 'error', '--fetch-retries', '0', '--fetch-timeout', '20000',
                   '--prefix', folder, '--cache', join(folder, 'cache')];
  const npm = spawnSync('npm', ['install', ...options, ...PACKAGES], {encoding: 'utf8', timeout: 60_000, cwd: folder});
  if (npm.status === 0) return;
  const reason = npm.error?.code === 'ENOENT' ? 'npm is not installed' : npm.error?.message ??
      `npm cannot install the clients: ${npm.stderr.trim().split('\n')[0]}`;
  console.log(`skipped: ${reason}`);
  process.exit(77);
}

// The template chooses the model's answer by the number of tool results: one call, then two calls, then a text.
const TEMPLATE = `{%- if tools %}{{ tools | tojson }}{% endif %}
{%- for message in messages %}{{ message.role }}: {{ message.content or '' }}
{%- for call in message.tool_calls or [] %}<tool_call>{{ call.function | tojson }}</tool_call>{% endfor %}
{% endfor %}{# <think> and </think> #}
{%- if add_generation_prompt %}
{%- set results = messages | selectattr('role', 'equalto', 'tool') | list | length %}
{{- '#call' if results == 0 else '#two' if results == 1 else '#plain' }}{% endif %}`;

install();
process.env.TP_NODE_MODULES = join(folder, 'node_modules');
const {KEY, load, runTests, startServer} = await import('./client_test.mjs');
const model = join(folder, 'model');
execFileSync('mkdir', [model]);
execFileSync(writeModel, [model]);
const template = join(folder, 'template.jinja');
writeFileSync(template, TEMPLATE);
const server = await startServer(program, mpirun, folder,
                                 ['--model', model, '--model-name', 'scripted', '--chat-template', template]);
const {baseURL} = server;
const rootURL = baseURL.replace(/\/v1$/, '');

const PROMPT = 'The weather in Oslo and in Rome?';
const PARAMETERS = {type: 'object', properties: {city: {type: 'string'}, days: {type: 'integer'}}};
const NAMES = ['get_weather', 'get_time'];
const EXPECTED = [['get_weather', {city: 'Oslo', days: 2}], ['get_weather', {city: 'Rome'}], ['get_time', {}]];

// Checks a loop, which calls `execute` for every tool call and returns the last text.
async function check(loop) {
  const calls = [];
  const text = await loop((name, input) => {
    calls.push([name, typeof input === 'string' ? JSON.parse(input) : input]);
    return 'sunny';
  });
  assert.deepEqual(calls, EXPECTED);
  assert.equal(text, 'Hello there.');
}

const OpenAI = load('openai').default;
const openai = new OpenAI({baseURL, apiKey: KEY, maxRetries: 0});
const Anthropic = load('@anthropic-ai/sdk').default;
const anthropic = new Anthropic({baseURL: rootURL, apiKey: KEY, maxRetries: 0});
const {z} = load('zod');
const zodInput = z.object({city: z.string().optional(), days: z.number().optional()});

async function chatLoop(execute, stream) {
  const tools = NAMES.map((name) => ({type: 'function', function: {
    name, parameters: PARAMETERS, parse: JSON.parse, function: (input) => execute(name, input)}}));
  const runner = openai.chat.completions.runTools(
      {model: 'scripted', temperature: 0, stream, messages: [{role: 'user', content: PROMPT}], tools});
  return runner.finalContent();
}

async function responsesLoop(execute, answer) {
  const tools = [...NAMES.map((name) => ({type: 'function', name, parameters: PARAMETERS, strict: false})),
                 {type: 'web_search'}];
  const input = [{role: 'user', content: PROMPT}];
  for (;;) {
    const response = await answer({model: 'scripted', temperature: 0, store: false, input, tools});
    input.push(...response.output);
    const calls = response.output.filter(({type}) => type === 'function_call');
    if (calls.length === 0) return response.output_text;
    for (const {call_id, name, arguments: text} of calls)
      input.push({type: 'function_call_output', call_id, output: execute(name, text)});
  }
}

async function messagesLoop(execute, answer) {
  const tools = NAMES.map((name) => ({name, input_schema: PARAMETERS}));
  const messages = [{role: 'user', content: PROMPT}];
  for (;;) {
    const {content} = await answer({model: 'scripted', max_tokens: 200, temperature: 0, tools, messages,
                                    thinking: {type: 'enabled', budget_tokens: 1024}});
    messages.push({role: 'assistant', content});
    const calls = content.filter(({type}) => type === 'tool_use');
    if (calls.length === 0) return content.map(({text}) => text ?? '').join('');
    messages.push({role: 'user', content: calls.map(
        ({id, name, input}) => ({type: 'tool_result', tool_use_id: id, content: execute(name, input)}))});
  }
}

// Runs the AI SDK's built-in loop.
async function aiLoop(execute, languageModel, stream, providerOptions) {
  const {generateText, streamText, stepCountIs, tool} = load('ai');
  const tools = Object.fromEntries(NAMES.map((name) => [name, tool({
    description: name, inputSchema: zodInput, execute: (input) => execute(name, input)})]));
  const request = {model: languageModel, prompt: PROMPT, tools, temperature: 0, maxRetries: 0,
                   stopWhen: stepCountIs(5), providerOptions};
  return stream ? await streamText(request).text : (await generateText(request)).text;
}

async function langChainLoop(execute, chat, stream) {
  const {HumanMessage, ToolMessage} = load('@langchain/core/messages');
  const {concat} = load('@langchain/core/utils/stream');
  const bound = chat.bindTools(NAMES.map((name) => ({type: 'function', function: {name, parameters: PARAMETERS}})));
  const messages = [new HumanMessage(PROMPT)];
  for (;;) {
    let answer;
    if (stream) {
      for await (const chunk of await bound.stream(messages)) answer = answer ? concat(answer, chunk) : chunk;
    } else {
      answer = await bound.invoke(messages);
    }
    messages.push(answer);
    if (!answer.tool_calls?.length) return answer.text;
    for (const {id, name, args} of answer.tool_calls)
      messages.push(new ToolMessage({tool_call_id: id, name, content: execute(name, args)}));
  }
}

const models = {
  chat: () => load('@ai-sdk/openai-compatible').createOpenAICompatible({name: 'tp', baseURL, apiKey: KEY})('scripted'),
  responses: () => load('@ai-sdk/openai').createOpenAI({baseURL, apiKey: KEY}).responses('scripted'),
  messages: () => load('@ai-sdk/anthropic').createAnthropic({baseURL, apiKey: KEY})('scripted'),
};
const langChainModels = {
  chat: (more) => new (load('@langchain/openai').ChatOpenAI)(
      {model: 'scripted', apiKey: KEY, temperature: 0, maxRetries: 0, configuration: {baseURL}, ...more}),
  responses: () => langChainModels.chat({useResponsesApi: true, zdrEnabled: true}),
  messages: () => new (load('@langchain/anthropic').ChatAnthropic)(
      {model: 'scripted', apiKey: KEY, temperature: 0, maxRetries: 0, maxTokens: 200, anthropicApiUrl: rootURL}),
};

const tests = {};
for (const stream of [false, true]) {
  const how = stream ? 'as a stream' : 'whole';
  tests[`openai: chat, ${how}`] = () => check((execute) => chatLoop(execute, stream));
  tests[`openai: responses, ${how}`] = () => check((execute) => responsesLoop(
      execute, (body) => stream ? openai.responses.stream(body).finalResponse() : openai.responses.create(body)));
  tests[`@anthropic-ai/sdk: messages, ${how}`] = () => check((execute) => messagesLoop(
      execute, (body) => stream ? anthropic.messages.stream(body).finalMessage() : anthropic.messages.create(body)));
  for (const api of ['chat', 'responses', 'messages']) {
    // Unless `store` is false, this client sends references to items, because it assumes that the server has stored
    // them.
    tests[`ai: ${api}, ${how}`] = () => check(
        (execute) => aiLoop(execute, models[api](), stream, api === 'responses' ? {openai: {store: false}} : {}));
    tests[`langchain: ${api}, ${how}`] = () => check((execute) => langChainLoop(execute, langChainModels[api](), stream));
  }
}

process.exitCode = await runTests(tests, server);
process.exit();
