// Shared parts of the tests with published clients: the clients, a server on two ranks, and a test runner.
import { spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join, resolve } from 'node:path';

export const KEY = 'a-key-for-the-test';

// Returns the package, or undefined if it is not installed.
export function load(name) {
  if (!process.env.TP_NODE_MODULES) return undefined;
  try {
    return createRequire(join(resolve(process.env.TP_NODE_MODULES), '..', 'index.js'))(name);
  } catch (error) {
    if (error.code === 'MODULE_NOT_FOUND') return undefined;
    throw error;
  }
}

export const OpenAI = load('openai')?.default;
export const Anthropic = load('@anthropic-ai/sdk')?.default;
if (!OpenAI) {
  console.log('skipped: the package openai is not installed (npm install openai; TP_NODE_MODULES=.../node_modules)');
  process.exit(77);
}

// Starts the server with these options. Resolves to its process and address as soon as it accepts requests.
export async function startServer(program, mpirun, folder, options) {
  const keys = join(folder, 'keys');
  writeFileSync(keys, `${KEY}\n`);
  const ranks = ['--oversubscribe', '--bind-to', 'none', '--mca', 'mpi_yield_when_idle', '1', '-np', '2'];
  const process = spawn(mpirun, [...ranks, program, 'serve', '--port', '0', '--threads', '1', '--api-key-file', keys,
                                 ...options],
                        {stdio: ['ignore', 'inherit', 'pipe']});
  let log = '';
  const ended = new Promise((resolve) => process.on('exit', (code, signal) => resolve(signal ?? code)));
  const address = new Promise((resolve, reject) => {
    process.stderr.setEncoding('utf8').on('data', (text) => {
      log += text;
      const found = log.match(/API {3}(http:\S+)\n/);
      if (found) resolve(found[1]);
    });
    ended.then((status) => reject(new Error(`the server ended with ${status}: ${log}`)));
  });
  return {process, ended, baseURL: await address, log: () => log};
}

export async function collect(stream) {
  const items = [];
  for await (const item of stream) items.push(item);
  return items;
}

// Runs the tests by name and ends the server. Resolves to the exit status.
export async function runTests(tests, server) {
  let failures = 0;
  for (const [name, test] of Object.entries(tests)) {
    try {
      await test();
      console.log(`ok: ${name}`);
    } catch (error) {
      ++failures;
      console.log(`FAILED: ${name}: ${error.stack}`);
    }
  }
  if (!Anthropic) console.log('skipped: Anthropic\'s client (npm install @anthropic-ai/sdk)');
  server.process.kill('SIGUSR1');
  const status = await server.ended;
  if (status !== 0) console.log(`FAILED: the server ended with ${status}`);
  if (failures > 0 || status !== 0) console.log(server.log());
  return failures > 0 || status !== 0 ? 1 : 0;
}
