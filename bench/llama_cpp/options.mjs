// The options of benchmarks that compare with llama.cpp.
import {availableParallelism} from "node:os";
import {dirname, join, resolve} from "node:path";
import {fileURLToPath} from "node:url";
import {parseArgs} from "node:util";

import {fail} from "./process.mjs";

export const kRoot = resolve(dirname(fileURLToPath(import.meta.url)), "../..");

const kCores = String(availableParallelism());
// Options of all benchmarks. An argument N is a positive integer.
const kCommonOptions = {
  source: {argument: "DIR", help: "sources of llama.cpp or of a fork (default: those in npm's node-llama-cpp)"},
  "peer-options": {argument: "TEXT", default: "", help: "more options of the peer's programs: --peer-options=-rtr"},
  build: {argument: "DIR", default: join(kRoot, "build"), help: "the build folder"},
  threads: {argument: "N", default: kCores, help: "threads of each program"},
  ranks: {argument: "N", help: "ranks that share our threads (default: one per thread)"},
  jobs: {argument: "N", default: kCores, help: "compilers that run at once"},
  json: {help: "print JSON"},
  help: {help: "print this help"},
};

const isNumber = ({argument}) => argument === "N";

function usage(script, table) {
  const lines = Object.entries(table).map(([name, {argument = "", default: value, help}]) =>
      `  --${`${name} ${argument}`.padEnd(20)} ${help}${value ? ` (default: ${value})` : ""}`);
  return [`Usage: node bench/${script} [OPTIONS]`, ...lines].join("\n");
}

function parsed(table) {
  const options = Object.fromEntries(Object.entries(table).map(([name, {argument, default: value}]) =>
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

// Returns the options by name: `own`, {name: {argument, default, help}}, and the common options of all benchmarks. Ends
// the program after --help and, with a message, after a wrong option.
export function readOptions(script, own) {
  const table = {...own, ...kCommonOptions};
  const values = parsed(table);
  if (values.help) {
    console.log(usage(script, table));
    process.exit(0);
  }
  values.ranks ??= values.threads;
  for (const [name, option] of Object.entries(table)) {
    if (isNumber(option)) values[name] = number(name, values[name]);
  }
  if (values.threads % values.ranks !== 0) {
    fail(`--ranks: expected a divisor of ${values.threads} threads, found ${values.ranks}; give a divisor`);
  }
  return values.types === undefined ? values : {...values, types: values.types.split(",")};
}
