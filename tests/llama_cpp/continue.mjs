// Continues prompts with llama.cpp and a GGUF file: node continue.mjs MODEL TOKENS < prompts.json
//
// Standard input is a list of prompts: texts, or lists of token ids. Prints one JSON object per prompt: its ids, the
// greedy continuation's ids, and for each of these the log-probabilities of the most likely tokens, [[id, logarithm],
// ...].
//
// The folder TP_NODE_MODULES must contain node-llama-cpp, which includes llama.cpp for CPUs.
import {createRequire} from "node:module";
import {readFileSync} from "node:fs";
import {join} from "node:path";
import {pathToFileURL} from "node:url";

const kShown = 2;
const modules = process.env.TP_NODE_MODULES;
const entry = createRequire(join(modules, "x.js")).resolve("node-llama-cpp");
const {getLlama, LlamaLogLevel} = await import(pathToFileURL(entry));

const [path, count] = process.argv.slice(2);
const prompts = JSON.parse(readFileSync(0, "utf8"));
const llama = await getLlama({gpu: false, build: "never", logLevel: LlamaLogLevel.error});
const model = await llama.loadModel({modelPath: path, useMmap: true});
const context = await model.createContext({contextSize: 256, batchSize: 64, threads: 1, flashAttention: false});
const sequence = context.getSequence();

function idsOf(prompt) {
  if (Array.isArray(prompt)) return prompt;
  const ids = model.tokenize(prompt);
  return model.tokens.shouldPrependBosToken ? [model.tokens.bos, ...ids] : ids;
}

for (const prompt of prompts) {
  const ids = idsOf(prompt);
  await sequence.clearHistory();
  const result = {ids, next: [], likely: []};
  let input = ids;
  while (result.next.length < Number(count)) {
    const last = input.length - 1;
    const steps = input.map((id, i) =>
        i < last ? id : [id, {generateNext: {token: true, probabilities: true, options: {temperature: 0}}}]);
    const output = (await sequence.controlledEvaluate(steps))[last].next;
    const likely = [...output.probabilities].slice(0, kShown).map(([id, p]) => [Number(id), Math.log(p)]);
    result.next.push(likely[0][0]);
    result.likely.push(likely);
    input = [likely[0][0]];
  }
  console.log(JSON.stringify(result));
}
process.exit(0);
