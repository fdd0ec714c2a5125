// The options of the benchmark.
import {availableParallelism} from "node:os";
import {dirname, join, resolve} from "node:path";
import {fileURLToPath} from "node:url";
import {parseArgs} from "node:util";

import {fail} from "./process.mjs";
import {kRandomTypes} from "./random_blocks.mjs";

export const kRoot = resolve(dirname(fileURLToPath(import.meta.url)), "../..");

const kCores = String(availableParallelism());
const kOptions = {
  source: {argument: "DIR", help: "sources of llama.cpp or of a fork (default: those in npm's node-llama-cpp)"},
  "peer-options": {argument: "TEXT", default: "", help: "more options of the peer's programs: --peer-options=-rtr"},
  build: {argument: "DIR", default: join(kRoot, "build"), help: "the build folder"},
  model: {argument: "DIR", help: "a checkpoint, in place of random weights"},
  shape: {argument: "FILE", default: join(kRoot, "bench/shapes/llama-1b.json"), help: "config.json of random weights"},
  types: {argument: "TYPES", default: "bf16,q8_0,q4_0,q4_k_m", help: `weight types of \`tp-infer quantize\`, or ${kRandomTypes.join(", ")}`},
  prompt: {argument: "N", default: "512", help: "tokens of a prompt"},
  generate: {argument: "N", default: "64", help: "tokens that are decoded of each text"},
  texts: {argument: "N", default: "16", help: "texts that are decoded at once"},
  pairs: {argument: "N", default: "12", help: "runs of each program; at least 5 for an interval"},
  threads: {argument: "N", default: kCores, help: "threads of each program"},
  ranks: {argument: "N", help: "ranks that share our threads (default: one per thread)"},
  jobs: {argument: "N", default: kCores, help: "compilers that run at once"},
  json: {help: "print JSON"},
  help: {help: "print this help"},
};
const kNumbers = ["prompt", "generate", "texts", "pairs", "threads", "ranks", "jobs"];

function usage() {
  const lines = Object.entries(kOptions).map(([name, {argument = "", default: value, help}]) =>
      `  --${`${name} ${argument}`.padEnd(20)} ${help}${value ? ` (default: ${value})` : ""}`);
  return ["Usage: node bench/llama_cpp.mjs [OPTIONS]", ...lines].join("\n");
}

function parsed() {
  const options = Object.fromEntries(Object.entries(kOptions).map(([name, {argument, default: value}]) =>
      [name, {type: argument ? "string" : "boolean", ...(value === undefined ? {} : {default: value})}]));
  try {
    return parseArgs({options}).values;
  } catch (error) {
    return fail(`${error.message.replace(/\s+/g, " ")}; --help lists the options`);
  }
}

function number(name, text) {
  if (!/^[1-9][0-9]*$/.test(text)) fail(`--${name}: expected a positive integer, found ${text}`);
  return Number(text);
}

// The options by name. Ends the program after --help, and with a message after a wrong option.
export function readOptions() {
  const values = parsed();
  if (values.help) {
    console.log(usage());
    process.exit(0);
  }
  values.ranks ??= values.threads;
  for (const name of kNumbers) values[name] = number(name, values[name]);
  if (values.threads % values.ranks !== 0) {
    fail(`--ranks: expected a divisor of ${values.threads} threads, found ${values.ranks}; give a divisor`);
  }
  return {...values, types: values.types.split(",")};
}
