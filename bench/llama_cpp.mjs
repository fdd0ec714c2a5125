#!/usr/bin/env node
// Compares tp-infer with llama.cpp, or with a fork of it, on this machine and with the same GGUF files:
//
//   node bench/llama_cpp.mjs                                      llama.cpp, as npm's node-llama-cpp carries it
//   node bench/llama_cpp.mjs --source DIR --peer-options=-rtr     sources that you have, such as ik_llama.cpp's
//
// The script builds the peer for this processor, writes files of random weights with `tp-infer quantize`, and verifies
// that both programs compute the same logits. Then runs alternate: ours, peer, ours, peer. A cell of the table is the
// median ratio of tokens/s, ours / peer, with its 90 % interval.
import {rmSync} from "node:fs";
import {basename, join} from "node:path";

import {relativeDifference} from "./llama_cpp/logits.mjs";
import {kRoot, readOptions} from "./llama_cpp/options.mjs";
import {fail, run} from "./llama_cpp/process.mjs";
import {kRandomTypes, writeRandomBlocks} from "./llama_cpp/random_blocks.mjs";
import {markdownReport} from "./llama_cpp/report.mjs";
import {checkpointOf, reportOf, startBenchmark, stories} from "./llama_cpp/start.mjs";
import {cellText, summary} from "./llama_cpp/statistics.mjs";

const kOptions = {
  model: {argument: "DIR", help: "a checkpoint, in place of random weights"},
  shape: {argument: "FILE", default: join(kRoot, "bench/shapes/llama-1b.json"), help: "config.json of random weights"},
  types: {argument: "TYPES", default: "bf16,q8_0,q4_0,q4_k_m", help: `weight types of \`tp-infer quantize\`, or ${kRandomTypes.join(", ")}`},
  prompt: {argument: "N", default: "512", help: "tokens of a prompt"},
  generate: {argument: "N", default: "64", help: "tokens that are decoded of each text"},
  texts: {argument: "N", default: "16", help: "texts that are decoded at once"},
  pairs: {argument: "N", default: "12", help: "runs of each program; at least 5 for an interval"},
};
const kShortPrompt = 32;  // tokens before each of several texts that are decoded together
const kVerifiedTokens = 128;
// Both programs round activations to the type of the weights, but in different groups. Caches are bf16 and f16.
const kLargestDifference = 0.1;

// Ends the benchmark unless both programs compute the same logits. Returns their relative difference.
function verify(ours, peer, model, folder) {
  const expected = peer.logits(model, stories(), kVerifiedTokens, folder);
  const difference = relativeDifference(expected, ours.logits(model, expected.ids, folder));
  if (!(difference <= kLargestDifference)) {  // the difference may be NaN
    fail(`${basename(model)}: expected the same logits of both programs, found a relative difference of ` +
         `${difference.toFixed(3)}; do not compare their speed`);
  }
  return difference;
}

function columnsOf({prompt, texts, generate}) {
  const one = {batch: 1, prompt, generate};
  const many = {batch: texts, prompt: kShortPrompt, generate};
  return [{column: `prompt of ${prompt}`, phase: "prefill", work: one}, {column: "decode", phase: "decode", work: one},
          {column: `${texts} texts`, phase: "decode", work: many}];
}

// Returns one result per column: {column, ours, peer, ratio, least, most}.
function measure(ours, peer, model, options) {
  const columns = columnsOf(options);
  const works = [...new Set(columns.map(({work}) => work))];
  const pairs = Array.from({length: options.pairs}, (_, i) => {
    process.stderr.write(`\r${basename(model)}: pair ${i + 1} of ${options.pairs} `);
    return new Map(works.map((work) => [work, {ours: ours.rates(model, work), peer: peer.rates(model, work)}]));
  });
  return columns.map(({column, phase, work}) => {
    const rates = pairs.map((pair) => ({ours: pair.get(work).ours[phase], peer: pair.get(work).peer[phase]}));
    return {column, ...summary(rates)};
  });
}

// Writes a GGUF file. For types that `tp-infer quantize` doesn't write, the layers are random.
function writeModel(ours, checkpoint, weights, model) {
  if (!kRandomTypes.includes(weights)) return ours.quantize(checkpoint, weights, model);
  const other = `${model}.q8_0.gguf`;
  ours.quantize(checkpoint, "q8_0", other);
  writeRandomBlocks(other, weights, model);
  rmSync(other);
}

function resultsOfType(weights, {ours, peer, checkpoint, folder, options}) {
  const model = join(folder, `${weights}.gguf`);
  writeModel(ours, checkpoint, weights, model);
  const logits_difference = verify(ours, peer, model, folder);
  run(["sync"]);  // otherwise a run might wait for the disk
  const results = measure(ours, peer, model, options);
  rmSync(model);
  console.error(results.map((result) => `${result.column} ${cellText(result)}`).join(", "));
  return results.map((result) => ({weights, ...result, logits_difference}));
}

function main() {
  const options = readOptions("llama_cpp.mjs", kOptions);
  const {ours, peer, folder} = startBenchmark(options, ["llama-batched-bench", "llama-perplexity"]);
  const checkpoint = checkpointOf(options, folder);
  const results = options.types.flatMap((weights) => resultsOfType(weights, {ours, peer, checkpoint, folder, options}));
  const report = {...reportOf("llama_cpp.mjs", {ours, peer}), pairs: options.pairs, results};
  console.log(options.json ? JSON.stringify(report, null, 2) : markdownReport(report));
}

main();
