// Runs the programs of a benchmark. If a program cannot run or fails, the benchmark ends with one message.
import {spawn, spawnSync} from "node:child_process";
import {closeSync, openSync, readFileSync} from "node:fs";
import {basename} from "node:path";

const kShownLines = 15;  // lines of a failed program's output

// Without these variables, Open MPI refuses to start ranks as root.
const kEnvironment = process.getuid() === 0 ?
    {OMPI_ALLOW_RUN_AS_ROOT: "1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM: "1"} : {};

export function fail(message) {
  console.error(`${basename(process.argv[1])}: ${message}`);
  process.exit(1);
}

// `advice`: how to install the program if it is missing.
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

// Returns the standard output followed by the standard error.
export function run(command, advice) {
  const done = start(command, advice, ["ignore", "pipe", "pipe"]);
  requireSuccess(done, command, () => done.stdout + done.stderr);
  return done.stdout + done.stderr;
}

// Writes the commands' output to the file `log`.
export function runLogged(commands, log, advice) {
  const file = openSync(log, "w");
  for (const command of commands) {
    const done = start(command, advice, ["ignore", file, file]);
    requireSuccess(done, command, () => readFileSync(log, "utf8"));
  }
  closeSync(file);
}

// Starts a server and writes its messages to the file `log`. Returns {ready, stop}; the caller must end the server with
// `stop`.
export function startServer([program, ...words], log) {
  const file = openSync(log, "w");
  const server = spawn(program, words, {env: {...process.env, ...kEnvironment}, stdio: ["ignore", file, file]});
  closeSync(file);
  const ended = new Promise((resolve) => {
    server.on("error", resolve);
    server.on("exit", resolve);
  });
  return {
    // Resolves as soon as `url` answers with status 200.
    ready: async (url) => {
      while (server.exitCode === null && server.signalCode === null) {
        const answer = await fetch(url).catch(() => null);
        if (answer?.status === 200) return;
        await new Promise((resolve) => setTimeout(resolve, 50));
      }
      fail(`${program} ${words.join(" ")}: expected a server, found status ${server.exitCode ?? server.signalCode}; ` +
           `its last lines are:\n${readFileSync(log, "utf8").trimEnd().split("\n").slice(-kShownLines).join("\n")}`);
    },
    stop: () => {
      server.kill("SIGTERM");
      return ended;
    },
  };
}
