#!/usr/bin/env node
// Compares the perplexity and the divergence that tp-infer and llama.cpp compute of the same GGUF files and text:
//
//   node bench/evaluation/numbers.mjs                        the demo model and its stories
//   node bench/evaluation/numbers.mjs --model DIR --file text.txt --context 512 --types q8_0,q4_k_m
//
// Both programs write their predictions of the F32 file, compare the other files with the predictions that the other
// program wrote, and must agree: see kMaxRelative and kMaxSteps.
import {readFileSync, writeFileSync} from "node:fs";
import {join} from "node:path";

import {largestDifferenceInSteps, readPeerLogits} from "../llama_cpp/logits.mjs";
import {readOptions} from "../llama_cpp/options.mjs";
import {fail} from "../llama_cpp/process.mjs";
import {aboutPrograms} from "../llama_cpp/report.mjs";
import {kDemo, reportOf, startBenchmark, stories} from "../llama_cpp/start.mjs";
import {markdownTable} from "../llama_cpp/statistics.mjs";

const kScript = "evaluation/numbers.mjs";
const kOptions = {
  model: {argument: "DIR", default: kDemo, help: "a checkpoint"},
  file: {argument: "FILE", help: "a text in UTF-8 (default: stories that the demo model was not trained with)"},
  context: {argument: "N", default: "64", help: "tokens of a chunk, whose second half is scored"},
  types: {argument: "TYPES", default: "bf16,q8_0,q4_0,q4_k_m", help: "weight types of `tp-infer quantize` beside F32"},
};
const kMaxRelative = 1e-4;  // difference of the F32 files' perplexities
// Steps of the F32 files' predictions. A value between two steps may be rounded to either of them.
const kMaxSteps = 1.5;

const relative = (a, b) => Math.abs(a - b) / b;

// Both programs' results for the F32 file. Ends the benchmark unless they agree.
function compareExact({ours, peer, model, text, bases}) {
  const found = {ours: ours.perplexity(model, {...text, base: bases.ours}).perplexity,
                 peer: peer.perplexity(model, {...text, base: bases.peer}).perplexity};
  const [own, other] = [bases.ours, bases.peer].map(readPeerLogits);
  if (JSON.stringify(own.ids) !== JSON.stringify(other.ids)) fail("expected the same token ids in both programs' files");
  const steps = largestDifferenceInSteps(own, other);
  if (!(relative(found.ours, found.peer) <= kMaxRelative)) {
    fail(`f32: expected perplexities that differ by ${kMaxRelative} at most, found ${found.ours} and ${found.peer}`);
  }
  if (!(steps <= kMaxSteps)) fail(`f32: expected predictions within ${kMaxSteps} steps, found ${steps.toFixed(2)}`);
  return {weights: "f32", ...found, steps, rows: own.rows.length};
}

function resultOfType(weights, {ours, peer, options, folder, bases}) {
  const model = join(folder, `${weights}.gguf`);
  ours.quantize(options.model, weights, model);
  return {weights, ours: ours.divergence(model, bases.peer), peer: peer.divergence(model, bases.ours, options.context)};
}

function markdown(report) {
  const {exact, results, peer} = report;
  const digits = (value, count) => value.toFixed(count);
  const row = ({weights, ours, peer: other}) =>
      [weights.toUpperCase(), digits(ours.perplexity, 4), digits(other.perplexity, 4),
       relative(ours.perplexity, other.perplexity).toExponential(1), digits(ours.mean_kld, 6), digits(other.mean_kld, 6),
       digits(100 * ours.same_top, 2), digits(100 * other.same_top, 2)];
  const first = ["F32", digits(exact.ours, 4), digits(exact.peer, 4), relative(exact.ours, exact.peer).toExponential(1),
                 "", "", "", ""];
  const names = ["PPL", "mean KLD", "same top, %"].flatMap((name) => [name, `${name}, ${peer.name}`]);
  names.splice(2, 0, "relative");
  return `${aboutPrograms(report)} ${exact.rows} scored tokens in chunks of ${report.context}. The predictions of the F32 ` +
      `file differ by ${exact.steps.toFixed(2)} of their 16-bit steps at most. Each program measures the divergence from ` +
      `the predictions that the other one wrote.\n\n\`\`\`sh\n${report.command}\n\`\`\`\n\n` +
      markdownTable(["", ...names], [first, ...results.map(row)]);
}

function main() {
  const options = readOptions(kScript, kOptions);
  const {ours, peer, folder} = startBenchmark(options, ["llama-perplexity"]);
  const text = {file: join(folder, "text.txt"), context: options.context};
  writeFileSync(text.file, options.file ? readFileSync(options.file) : stories());
  const bases = {ours: join(folder, "ours.kld"), peer: join(folder, "peer.kld")};
  const model = join(folder, "f32.gguf");
  ours.quantize(options.model, "f32", model);
  const exact = compareExact({ours, peer, model, text, bases});
  const results = options.types.map((weights) => resultOfType(weights, {ours, peer, options, folder, bases}));
  const report = {...reportOf(kScript, {ours, peer}), context: options.context, exact, results};
  console.log(options.json ? JSON.stringify(report, null, 2) : markdown(report));
}

main();
