// Tests llama_cpp.mjs: its arithmetic, and the whole script with a peer whose "build" copies two small programs. If
// llama.cpp has been built (node bench/llama_cpp.mjs), the script also runs with it.
//
//   node bench/llama_cpp_test.mjs BUILD_FOLDER
import assert from "node:assert/strict";
import {spawnSync} from "node:child_process";
import {chmodSync, cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync} from "node:fs";
import {tmpdir} from "node:os";
import {dirname, join, resolve} from "node:path";
import {after, test} from "node:test";
import {fileURLToPath} from "node:url";

import {relativeDifference} from "./llama_cpp/logits.mjs";
import {kRandomTypes} from "./llama_cpp/random_blocks.mjs";
import {interval90, median, summary} from "./llama_cpp/statistics.mjs";

const kBench = dirname(fileURLToPath(import.meta.url));
const kRoot = dirname(kBench);
const kBuild = resolve(process.argv[2] ?? join(kRoot, "build"));
const kProgram = join(kBuild, "bin/tp-infer");
const kFolder = mkdtempSync(join(tmpdir(), "llama-cpp-test-"));
after(() => rmSync(kFolder, {recursive: true, force: true}));

function write(name, text, mode = 0o644) {
  const path = join(kFolder, name);
  mkdirSync(dirname(path), {recursive: true});
  writeFileSync(path, text);
  chmodSync(path, mode);
  return path;
}

// A build folder with a tp-infer that notes each run in the file `runs`.
const kRuns = join(kFolder, "runs");
write("build/bin/tp-infer", `#!/bin/sh\n[ "$1" != bench ] || echo ours >> ${kRuns}\nexec ${kProgram} "$@"\n`, 0o755);

// A fake peer: its programs use tp-infer, and it reports speeds of 10 and 5 tokens/s.
cpSync(join(kBench, "llama_cpp/fake_peer"), join(kFolder, "peer"), {recursive: true});

const kShape = write("shape.json", JSON.stringify({
  architectures: ["LlamaForCausalLM"], hidden_act: "silu", hidden_size: 64, intermediate_size: 128, num_hidden_layers: 2,
  num_attention_heads: 4, num_key_value_heads: 2, vocab_size: 1536, max_position_embeddings: 512, rms_norm_eps: 1e-5,
  rope_theta: 10000, tie_word_embeddings: true, torch_dtype: "bfloat16",
}));

function script(options, {build = join(kFolder, "build"), environment = {}} = {}) {
  return spawnSync(process.execPath, [join(kBench, "llama_cpp.mjs"), "--build", build, ...options], {
    encoding: "utf8",
    env: {...process.env, TP_FAKE_PEER_RUNS: kRuns, TP_FAKE_PEER_PROGRAM: kProgram, ...environment},
  });
}

const kSmall = ["--types", "bf16,q8_0", "--prompt", "12", "--generate", "4", "--texts", "3", "--threads", "1"];
const kFake = ["--source", join(kFolder, "peer"), "--shape", kShape, ...kSmall];

test("medians and intervals", () => {
  assert.equal(median([3, 1, 2]), 2);
  assert.equal(median([4, 1, 3, 2]), 2.5);
  const upTo = (n) => Array.from({length: n}, (_, i) => n - i);
  assert.equal(interval90(upTo(4)), null);         // probability of the whole range: 0.875
  assert.deepEqual(interval90(upTo(5)), [1, 5]);   // probability 0.9375
  assert.deepEqual(interval90(upTo(7)), [1, 7]);   // probability 0.984; [2, 6] has 0.875
  assert.deepEqual(interval90(upTo(8)), [2, 7]);   // probability 0.930
  assert.deepEqual(interval90(upTo(12)), [3, 10]); // probability 0.961; [4, 9] has 0.854
  const pairs = [[2, 1], [6, 2], [5, 5], [4, 1], [9, 3]].map(([ours, peer]) => ({ours, peer}));
  assert.deepEqual(summary(pairs), {ours: 5, peer: 2, ratio: 3, least: 1, most: 4});
});

test("the difference of logits", () => {
  const peer = {first: 1, rows: [{least: Math.log(0.1), values: Float64Array.from([0.1, 0.2, 0.7], Math.log)}]};
  const row = (...probabilities) => Float64Array.from(probabilities, (p) => 5 + Math.log(p));
  assert.ok(relativeDifference(peer, [row(1, 1, 1), row(0.1, 0.2, 0.7)]) < 1e-12);
  assert.ok(relativeDifference(peer, [row(1, 1, 1), row(0.01, 0.2, 0.79)]) < 0.1);  // one probability is below `least`
  assert.ok(relativeDifference(peer, [row(1, 1, 1), row(0.7, 0.1, 0.2)]) > 1);
});

test("runs alternate, and the table has a row per type", () => {
  rmSync(kRuns, {force: true});
  const done = script([...kFake, "--pairs", "2"]);
  assert.equal(done.status, 0, done.stderr);
  assert.match(done.stdout, /^\| \| prompt of 12, peer \| decode, peer \| 3 texts, peer \|$/m);
  for (const type of ["BF16", "Q8_0"]) assert.match(done.stdout, new RegExp(`^\\| ${type} (\\| [0-9.]+ ){3}\\|$`, "m"));
  assert.match(done.stdout, /node bench\/llama_cpp\.mjs --build .* --pairs 2/);
  assert.equal(readFileSync(kRuns, "utf8"), "ours\npeer\n".repeat(8));
  assert.deepEqual(readdirSync(join(kFolder, "build/peers")).filter((name) => name.startsWith("models-")), []);
});

test("JSON has the machine, the programs, medians and intervals", () => {
  const done = script([...kFake, "--types", "q8_0", "--pairs", "5", "--json"]);
  assert.equal(done.status, 0, done.stderr);
  const report = JSON.parse(done.stdout);
  assert.match(report.date, /^20\d\d-\d\d-\d\d$/);
  assert.ok(report.machine.cores > 0 && report.machine.cpu !== "");
  assert.equal(report.peer.name, "peer");
  assert.deepEqual(report.results.map(({column, peer}) => [column, peer]),
                   [["prompt of 12", 10], ["decode", 5], ["3 texts", 5]]);
  for (const {ours, peer, ratio, least, most, logits_difference: difference} of report.results) {
    assert.ok(least <= ratio && ratio <= most && Math.abs(ratio - ours / peer) < 1e-9 * ratio);
    assert.ok(difference < 1e-3);  // the peer's logits are ours, rounded to 65536 steps
  }
});

test("types that tp-infer doesn't write have random layers", () => {
  const done = script(["--source", join(kFolder, "peer"), "--model", join(kRoot, "model/demo"), ...kSmall,
                       "--types", kRandomTypes.join(), "--pairs", "1"]);
  assert.equal(done.status, 0, done.stderr);
  for (const type of kRandomTypes) assert.match(done.stdout, new RegExp(`^\\| ${type.toUpperCase()} \\|`, "m"));
  expectError(script([...kFake, "--types", "iq3_xxs"]), /expected rows of a multiple of 256 weights for iq3_xxs, found 64/);
});

function expectError(done, ...patterns) {
  assert.equal(done.status, 1, done.stdout + done.stderr);
  for (const pattern of patterns) assert.match(done.stderr, pattern);
}

test("wrong logits end the benchmark", () => {
  expectError(script(kFake, {environment: {TP_FAKE_PEER_SHIFT: "1"}}), /bf16\.gguf: expected the same logits/);
});

test("errors of the build", () => {
  const empty = join(kFolder, "empty");
  mkdirSync(empty);
  expectError(script(["--source", empty]), /--source .*empty: expected the sources.*no CMakeLists\.txt/);
  write("broken/CMakeLists.txt", "cmake_minimum_required(VERSION 3.14)\nproject(broken NONE)\nmessage(FATAL_ERROR \"no luck\")\n");
  expectError(script(["--source", join(kFolder, "broken")]), /cmake .*expected status 0, found 1/, /no luck/);
  expectError(script(kFake, {environment: {PATH: empty}}), /cannot run cmake: expected a program, found none; install CMake/);
  expectError(script([], {environment: {PATH: empty}}), /cannot run npm: .*--source DIR/);
  expectError(script(["--pairs", "none"]), /--pairs: expected a positive integer, found none/);
  expectError(script(["--par", "3"]), /Unknown option '--par'.*--help/);
});

test("the guides' commands", () => {
  const lines = ["README.md", "RESULTS.md"].flatMap((name) => readFileSync(join(kBench, name), "utf8").split("\n"));
  const commands = lines.filter((line) => line.startsWith("node bench/llama_cpp.mjs"));
  assert.ok(commands.length > 3);
  for (const command of commands) {
    const done = script([...command.replace(/ +#.*/, "").split(" ").slice(2), "--help"]);
    assert.equal(done.status, 0, command + done.stderr);
  }
});

const isBuilt = existsSync(join(kBuild, "peers/llama.cpp")) &&
    readdirSync(join(kBuild, "peers")).some((name) => existsSync(join(kBuild, "peers", name, "bin/llama-batched-bench")));
test("llama.cpp itself", {skip: isBuilt ? false : "run node bench/llama_cpp.mjs once, which builds it"}, () => {
  const demo = ["--model", join(kRoot, "model/demo")];
  for (const model of [demo, [...demo, "--types", kRandomTypes.join()], ["--shape", kShape]]) {
    const done = script([...kSmall, ...model, "--pairs", "1", "--json"], {build: kBuild});
    assert.equal(done.status, 0, done.stderr);
    for (const {peer, logits_difference: difference} of JSON.parse(done.stdout).results) {
      assert.ok(peer > 0);
      assert.ok(difference > 0 && difference < 0.05);
    }
  }
});
