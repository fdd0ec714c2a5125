// Runs the programs of the benchmark. A program that cannot run, or fails, ends the benchmark with one message.
import {spawnSync} from "node:child_process";
import {closeSync, openSync, readFileSync} from "node:fs";

const kShownLines = 15;  // of what a failed program printed

// Open MPI refuses to start ranks as root without these.
const kEnvironment = process.getuid() === 0 ?
    {OMPI_ALLOW_RUN_AS_ROOT: "1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM: "1"} : {};

export function fail(message) {
  console.error(`llama_cpp.mjs: ${message}`);
  process.exit(1);
}

// `advice` says how to get a program that is missing.
function start([program, ...words], advice, stdio) {
  const done = spawnSync(program, words,
                         {encoding: "utf8", env: {...process.env, ...kEnvironment}, maxBuffer: 1 << 28, stdio});
  if (done.error) {
    const found = done.error.code === "ENOENT" ? "none" : done.error.message;
    fail(`cannot run ${program}: expected a program, found ${found}; ${advice}`);
  }
  return done;
}

function requireSuccess(done, command, output) {
  if (done.status === 0) return;
  const lines = output().trimEnd().split("\n").slice(-kShownLines).join("\n");
  fail(`${command.join(" ")}: expected status 0, found ${done.status ?? done.signal}; its last lines are:\n${lines}`);
}

// Standard output, and after it standard error.
export function run(command, advice) {
  const done = start(command, advice, ["ignore", "pipe", "pipe"]);
  requireSuccess(done, command, () => done.stdout + done.stderr);
  return done.stdout + done.stderr;
}

// Writes what the commands print to the file `log`.
export function runLogged(commands, log, advice) {
  const file = openSync(log, "w");
  for (const command of commands) {
    const done = start(command, advice, ["ignore", file, file]);
    requireSuccess(done, command, () => readFileSync(log, "utf8"));
  }
  closeSync(file);
}
