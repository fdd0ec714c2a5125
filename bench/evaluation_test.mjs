// Tests evaluation/numbers.mjs and evaluation/requests.mjs with a peer whose programs do the work with tp-infer. If
// llama.cpp has been built (by the scripts themselves), they also run with it.
//
//   node bench/evaluation_test.mjs BUILD_FOLDER
import assert from "node:assert/strict";
import {spawnSync} from "node:child_process";
import {cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync} from "node:fs";
import {tmpdir} from "node:os";
import {dirname, join, resolve} from "node:path";
import {after, test} from "node:test";
import {fileURLToPath} from "node:url";

import {largestDifferenceInSteps} from "./llama_cpp/logits.mjs";

const kBench = dirname(fileURLToPath(import.meta.url));
const kDemo = join(dirname(kBench), "model/demo");
const kBuild = resolve(process.argv[2] ?? join(dirname(kBench), "build"));
const kFolder = mkdtempSync(join(tmpdir(), "evaluation-test-"));
after(() => rmSync(kFolder, {recursive: true, force: true}));
cpSync(join(kBench, "llama_cpp/fake_peer"), join(kFolder, "peer"), {recursive: true});
mkdirSync(join(kFolder, "build"));
symlinkSync(join(kBuild, "bin"), join(kFolder, "build/bin"));

function script(name, options, {peer = ["--source", join(kFolder, "peer")], build = join(kFolder, "build"), shift = ""} = {}) {
  return spawnSync(process.execPath, [join(kBench, "evaluation", name), "--build", build, "--threads", "1", ...peer, ...options], {
    encoding: "utf8",
    env: {...process.env, TP_FAKE_PEER_PROGRAM: join(kBuild, "bin/tp-infer"), TP_FAKE_PEER_SHIFT: shift},
  });
}

function reportOf(name, options, how) {
  const done = script(name, [...options, "--json"], how);
  assert.equal(done.status, 0, done.stderr);
  return JSON.parse(done.stdout);
}

const kFewRequests = ["--model", kDemo, "--requests", "6", "--tokens", "40", "--prefix", "33", "--at-once", "3", "--pairs", "2"];

test("the difference of two files in steps", () => {
  const file = (...values) => ({rows: [{step: 0.5, values: Float64Array.from(values)}]});
  assert.equal(largestDifferenceInSteps(file(-1, -2, -3), file(-1, -2.25, -4)), 2);
});

test("numbers", () => {
  const {exact, results, context} = reportOf("numbers.mjs", ["--types", "q8_0,q4_0", "--context", "32"]);
  assert.equal(context, 32);
  assert.ok(Math.abs(exact.ours - exact.peer) < 1e-4);  // the peer's has four decimals
  assert.equal(exact.steps, 0);
  assert.deepEqual(results.map(({weights}) => weights), ["q8_0", "q4_0"]);
  for (const {ours, peer} of results) {
    assert.ok(ours.mean_kld > 0 && ours.maximum_kld > ours.mean_kld && ours.same_top > 0.5 && ours.same_top < 1);
    for (const name of Object.keys(ours)) assert.ok(Math.abs(ours[name] - peer[name]) < 1e-5 * Math.abs(ours[name]) + 1e-6, name);
  }
  assert.ok(results[1].ours.mean_kld > 4 * results[0].ours.mean_kld);
  const table = script("numbers.mjs", ["--types", "q8_0", "--context", "32"]);
  assert.match(table.stdout, /^\| F32 \| [0-9.]+ \| [0-9.]+ \| [0-9.]+e-\d+ \|/m);
  assert.match(table.stdout, /^\| Q8_0 (\| [0-9.]+ ){2}\| [0-9.]+e-\d+ (\| [0-9.]+ ){4}\|$/m);
});

test("numbers that differ end the benchmark", () => {
  const done = script("numbers.mjs", ["--types", "q8_0"], {shift: "1"});
  assert.equal(done.status, 1, done.stdout);
  assert.match(done.stderr, /numbers\.mjs: f32: expected perplexities that differ by 0\.0001 at most, found [0-9.]+ and 1/);
});

test("requests", () => {
  const {result, options} = reportOf("requests.mjs", kFewRequests);
  assert.equal(options.requests, 6);
  assert.ok(result.ours > 0 && result.peer > 0 && result.ratio > 0 && result.least === null);
  const text = script("requests.mjs", kFewRequests);
  assert.match(text.stdout, /6 requests of 40 tokens, of which 33 are the same, 3 at once: .* ratio [0-9.]+, 2 pairs/);
});

test("wrong answers and options end the benchmark", () => {
  const wrong = script("requests.mjs", kFewRequests, {shift: "1"});
  assert.equal(wrong.status, 1, wrong.stdout);
  assert.match(wrong.stderr, /llama-server: expected the log-probability -[0-9.]+, found/);
  const option = script("requests.mjs", ["--prefix", "300"]);
  assert.equal(option.status, 1);
  assert.match(option.stderr, /--prefix: expected less than 300 tokens, found 300/);
});

const isBuilt = (program) => existsSync(join(kBuild, "peers/llama.cpp")) &&
    readdirSync(join(kBuild, "peers")).some((name) => existsSync(join(kBuild, "peers", name, "bin", program)));
const skipped = (program, name) => ({skip: isBuilt(program) ? false : `run node bench/evaluation/${name} once, which builds llama.cpp`});
const kReal = {peer: [], build: kBuild};

test("numbers of llama.cpp itself", skipped("llama-perplexity", "numbers.mjs"), () => {
  const {exact} = reportOf("numbers.mjs", ["--types", "q8_0"], kReal);
  assert.ok(Math.abs(exact.ours - exact.peer) <= 1e-4 * exact.peer && exact.steps <= 1.5);
});

test("requests to llama-server itself", skipped("llama-server", "requests.mjs"), () => {
  assert.ok(reportOf("requests.mjs", kFewRequests, kReal).result.peer > 0);
});
