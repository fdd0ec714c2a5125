// Tokens/s of llama.cpp with a GGUF file, as a peer for `bench/compare`:
//
//   npm install --prefix DIR node-llama-cpp@3
//   TP_NODE_MODULES=DIR/node_modules node bench/llama_cpp.mjs MODEL.gguf [--threads N] [--prompt N] [--generate N] [--batch 1,16]
//
// Prints the rows that `tp-infer bench --json` has: "prefill" of one prompt and "decode" of every number of
// sequences, the quickest of --repeat runs behind one that does not count. The package brings llama.cpp along, with
// kernels for every kind of processor.
import {createRequire} from "node:module";
import {resolve} from "node:path";
import {pathToFileURL} from "node:url";
import {parseArgs} from "node:util";

const {values: options, positionals} = parseArgs({
  allowPositionals: true,
  options: {
    threads: {type: "string", default: "2"},
    prompt: {type: "string", default: "512"},
    generate: {type: "string", default: "64"},
    batch: {type: "string", default: "1,16"},
    repeat: {type: "string", default: "3"},
  },
});
const modules = process.env.TP_NODE_MODULES;
if (positionals.length !== 1 || !modules) {
  console.error("usage: TP_NODE_MODULES=DIR/node_modules node bench/llama_cpp.mjs MODEL.gguf [--threads N] " +
                "[--prompt N] [--generate N] [--batch 1,16] [--repeat N]");
  process.exit(2);
}
function entryOf(name) {
  try {
    return createRequire(resolve(modules, "x.js")).resolve(name);
  } catch {
    console.error(`llama_cpp.mjs: cannot find ${name} in ${modules}: expected the package, found none; ` +
                  `run: npm install --prefix DIR ${name}@3, and set TP_NODE_MODULES=DIR/node_modules`);
    process.exit(1);
  }
}
const entry = entryOf("node-llama-cpp");
const {getLlama, LlamaLogLevel} = await import(pathToFileURL(entry));

const prompt = Number(options.prompt);
const generate = Number(options.generate);
const batches = options.batch.split(",").map(Number);
const sequences = Math.max(...batches);
const llama = await getLlama({gpu: false, build: "never", logLevel: LlamaLogLevel.error, maxThreads: Number(options.threads)});
const model = await llama.loadModel({modelPath: positionals[0], useMmap: true});
const length = prompt + generate + 8;
const context = await model.createContext({
  contextSize: length,
  sequences,
  batchSize: 512,
  threads: {ideal: Number(options.threads), min: Number(options.threads)},
  batching: {dispatchSchedule: "nextCycle"},
});
const all = Array.from({length: sequences}, () => context.getSequence());

// Prompts that begin differently.
function promptOf(index, count) {
  let text = `${index + 1} `;
  let ids = [];
  while (ids.length < count) {
    text += "horses and a boat met in the old town, where nobody had seen the sea before. ";
    ids = model.tokenize(text);
  }
  return ids.slice(0, count);
}

async function seconds(work) {
  const start = process.hrtime.bigint();
  await work();
  return Number(process.hrtime.bigint() - start) / 1e9;
}

async function best(measure) {
  await measure();
  const found = [];
  for (let i = 0; i < Number(options.repeat); ++i) found.push(await measure());
  return Math.min(...found);
}

function print(phase, batch, tokens, time) {
  console.log(JSON.stringify({phase, batch, prompt, tokens_per_s: tokens / time}));
}

print("prefill", 1, prompt, await best(async () => {
  const ids = promptOf(0, prompt);
  await all[0].clearHistory();
  return seconds(() => all[0].evaluateWithoutGeneratingNewTokens(ids));
}));

// One token after the other, always the likeliest; the first one ends the prompt and is not timed.
for (const batch of batches) {
  print("decode", batch, batch * generate, await best(async () => {
    const texts = [];
    for (let i = 0; i < batch; ++i) {
      await all[i].clearHistory();
      const ids = promptOf(i, prompt);
      await all[i].evaluateWithoutGeneratingNewTokens(ids.slice(0, -1));
      texts.push(all[i].evaluate(ids.slice(-1), {temperature: 0, yieldEogToken: true}));
    }
    await Promise.all(texts.map((text) => text.next()));
    return seconds(async () => {
      for (let step = 0; step < generate; ++step) {
        for (const one of await Promise.all(texts.map((text) => text.next()))) {
          if (one.done) throw new Error("llama.cpp ended a text; take another model or fewer tokens");
        }
      }
    });
  }));
}
process.exit(0);
