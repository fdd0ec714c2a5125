#!/usr/bin/env node
// Compares how many log-likelihood requests per second `tp-infer serve` and llama-server answer, with the same GGUF file:
//
//   node bench/evaluation/requests.mjs
//
// The requests have a common beginning, such as few-shot examples. tp-infer returns the log-probability of each token of
// the prompt and of one more token, as lm-evaluation-harness asks for. llama-server has no scores of prompts: it computes
// the same prompts and one more token. So it answers a question that no evaluation asks, but one with the same prompts.
import {readFileSync} from "node:fs";
import {createServer} from "node:net";
import {join} from "node:path";

import {logProbabilities} from "../llama_cpp/logits.mjs";
import {kRoot, readOptions} from "../llama_cpp/options.mjs";
import {fail, startServer} from "../llama_cpp/process.mjs";
import {aboutPrograms, counted} from "../llama_cpp/report.mjs";
import {checkpointOf, reportOf, startBenchmark} from "../llama_cpp/start.mjs";
import {cellText, summary} from "../llama_cpp/statistics.mjs";

const kScript = "evaluation/requests.mjs";
const kOptions = {
  model: {argument: "DIR", help: "a checkpoint, in place of random weights"},
  shape: {argument: "FILE", default: join(kRoot, "bench/shapes/llama-tiny.json"), help: "config.json of random weights"},
  weights: {argument: "TYPE", default: "bf16", help: "a weight type of `tp-infer quantize`"},
  requests: {argument: "N", default: "1000", help: "requests of a run"},
  tokens: {argument: "N", default: "300", help: "tokens of a prompt"},
  prefix: {argument: "N", default: "250", help: "tokens that all prompts begin with"},
  "at-once": {argument: "N", default: "16", help: "requests that a client has sent and that are not answered"},
  pairs: {argument: "N", default: "12", help: "runs of each program; at least 5 for an interval"},
};
const kVerified = 4;  // number of verified requests
// The server prints six digits, and concurrent requests run in different batches than a single text.
const kMaxDifference = 2e-3;
// Both programs round activations to the type of the weights, but in different groups.
const kMaxDifferenceOfPeer = 0.2;
const kFirstOrdinaryToken = 300;  // smaller ids are control tokens and bytes

// Returns prompts of token ids that are the same at every run.
function prompts({requests, tokens, prefix}, vocab) {
  let state = 1;
  const next = () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return kFirstOrdinaryToken + (state >>> 8) % (vocab - kFirstOrdinaryToken);
  };
  const common = Array.from({length: prefix}, next);
  return Array.from({length: requests}, () => [...common, ...Array.from({length: tokens - prefix}, next)]);
}

function freePort() {
  return new Promise((resolve) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const {port} = server.address();
      server.close(() => resolve(port));
    });
  });
}

async function post(url, body) {
  const answer = await fetch(url, {method: "POST", body: JSON.stringify(body), headers: {"Content-Type": "application/json"}});
  if (answer.status !== 200) fail(`${url}: expected status 200, found ${answer.status}: ${await answer.text()}`);
  return answer.json();
}

// Calls ask(prompt) for all prompts, `atOnce` at a time. Returns the seconds.
async function secondsFor(all, atOnce, ask) {
  let next = 0;
  const client = async () => {
    while (next < all.length) await ask(all[next++]);
  };
  const begin = performance.now();
  await Promise.all(Array.from({length: atOnce}, client));
  return (performance.now() - begin) / 1000;
}

// Returns each server's command and a function to ask it. `ask` returns the log-probabilities of all tokens after the
// first and of one more token, or only of that last token.
function serversOf({ours, peer, model, port, options}) {
  const url = `http://127.0.0.1:${port}`;
  const begin = ["--port", String(port)];
  return {
    ours: {
      command: [...ours.command, "serve", "--model", model, ...begin, "--threads", String(ours.threads)],
      ask: async (prompt) => {
        const body = {prompt, max_tokens: 1, temperature: 0, logprobs: 1, echo: true};
        return (await post(`${url}/v1/completions`, body)).choices[0].logprobs.token_logprobs.slice(1);
      },
    },
    peer: {
      command: [peer.programs["llama-server"], "-m", model, ...begin, "-t", String(peer.threads), "--parallel",
                String(options["at-once"]), "-c", String(options["at-once"] * (options.tokens + 8)), ...peer.more],
      ask: async (prompt) => {
        const body = {prompt, n_predict: 1, temperature: 0, n_probs: 1, cache_prompt: true};
        return [(await post(`${url}/completion`, body)).completion_probabilities[0].logprob];
      },
    },
    url,
  };
}

// Calls use() while the server runs, and returns its result.
async function whileServing({command}, {url, log}, use) {
  const server = startServer(command, log);
  await server.ready(`${url}/health`);
  const result = await use();
  await server.stop();
  return result;
}

// Ends the benchmark unless the answers equal those of `tp-infer logits`.
async function verify(servers, place, {ours, model, folder, all}) {
  const some = all.slice(0, kVerified);
  const answers = {};
  for (const name of ["ours", "peer"]) {
    answers[name] = await whileServing(servers[name], place, () => Promise.all(some.map(servers[name].ask)));
  }
  some.forEach((prompt, i) => {
    const expected = ours.logits(model, prompt, folder).map(logProbabilities);
    const [found, last] = [answers.ours[i], expected.at(-1)];
    prompt.slice(1).forEach((id, j) => {
      if (Math.abs(found[j] - expected[j][id]) <= kMaxDifference) return;
      fail(`token ${j + 1}: expected the log-probability ${expected[j][id]}, found ${found[j]}`);
    });
    const likeliest = last.reduce((a, b) => Math.max(a, b));
    if (!(Math.abs(found.at(-1) - likeliest) <= kMaxDifference)) {
      fail(`expected the log-probability ${likeliest} of one more token, found ${found.at(-1)}`);
    }
    if (!(Math.abs(answers.peer[i].at(-1) - likeliest) <= kMaxDifferenceOfPeer)) {
      fail(`${servers.peer.command[0]}: expected the log-probability ${likeliest}, found ${answers.peer[i]}`);
    }
  });
}

// Returns the requests/s of both servers, measured alternately. Each run restarts the server, so that its cache is
// empty.
async function measure(servers, place, {options, all}) {
  const pairs = [];
  for (let i = 0; i < options.pairs; ++i) {
    process.stderr.write(`\rpair ${i + 1} of ${options.pairs} `);
    const pair = {};
    for (const name of ["ours", "peer"]) {
      const seconds = () => secondsFor(all, options["at-once"], servers[name].ask);
      pair[name] = all.length / await whileServing(servers[name], place, seconds);
    }
    pairs.push(pair);
  }
  process.stderr.write("\n");
  return summary(pairs);
}

function markdown(report) {
  const {result, options, peer, command} = report;
  return `${aboutPrograms(report)} ${options.weights.toUpperCase()}, ${counted(options.requests, "request")} of ` +
      `${options.tokens} tokens, of which ${options.prefix} are the same, ${options["at-once"]} at once: tp-infer ` +
      `${result.ours.toFixed(1)} requests/s with scores of all tokens, ${peer.name} ${result.peer.toFixed(1)} without, ratio ` +
      `${cellText(result)}, ${counted(options.pairs, "pair")}.\n\n\`\`\`sh\n${command}\n\`\`\``;
}

async function main() {
  const options = readOptions(kScript, kOptions);
  if (options.prefix >= options.tokens) fail(`--prefix: expected less than ${options.tokens} tokens, found ${options.prefix}`);
  const {ours, peer, folder} = startBenchmark(options, ["llama-server"]);
  const checkpoint = checkpointOf(options, folder);
  const model = join(folder, "model.gguf");
  ours.quantize(checkpoint, options.weights, model);
  const vocabulary = JSON.parse(readFileSync(join(checkpoint, "config.json"), "utf8")).vocab_size;
  const all = prompts(options, vocabulary);
  const servers = serversOf({ours, peer, model, port: await freePort(), options});
  const place = {url: servers.url, log: join(folder, "server.log")};
  await verify(servers, place, {ours, model, folder, all});
  const result = await measure(servers, place, {options, all});
  const report = {...reportOf(kScript, {ours, peer}), options, result};
  console.log(options.json ? JSON.stringify(report, null, 2) : markdown(report));
}

main();
