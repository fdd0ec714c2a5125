// Prepares a benchmark against llama.cpp: both programs, a folder for models, and a checkpoint.
import {mkdirSync, mkdtempSync, readFileSync, rmSync} from "node:fs";
import {join} from "node:path";

import {buildPeer} from "./build.mjs";
import {writeSyntheticCheckpoint} from "./checkpoint.mjs";
import {kRoot} from "./options.mjs";
import {Ours, Peer} from "./programs.mjs";
import {thisMachine} from "./report.mjs";

export const kDemo = join(kRoot, "model/demo");

// Returns texts on which the demo model was not trained.
export function stories() {
  const lines = readFileSync(join(kDemo, "held_out.jsonl"), "utf8").trim().split("\n");
  return lines.map((line) => JSON.parse(line).text).join("\n\n");
}

// Creates a folder for models, and removes it when the program ends.
function temporaryFolder(parent) {
  const folder = mkdtempSync(join(parent, "models-"));
  process.on("exit", () => rmSync(folder, {recursive: true, force: true}));
  process.on("SIGINT", () => process.exit(130));
  return folder;
}

// Returns the checkpoint of --model, or a new one with random weights in the shape of --shape.
export function checkpointOf({model, shape}, folder) {
  const checkpoint = model ?? join(folder, "checkpoint");
  if (!model) writeSyntheticCheckpoint({shape, tokenizer: kDemo, folder: checkpoint});
  return checkpoint;
}

// Builds the peer's `programs`. Returns {ours, peer, folder}.
export function startBenchmark(options, programs) {
  const peers = join(options.build, "peers");
  mkdirSync(peers, {recursive: true});
  const ours = new Ours(options);
  const peer = new Peer(buildPeer({...options, folder: peers}, programs), options);
  return {ours, peer, folder: temporaryFolder(peers)};
}

// Returns the members of a report that all benchmarks have.
export function reportOf(script, {ours, peer}) {
  return {
    machine: thisMachine(), date: new Date().toISOString().slice(0, 10),
    command: ["node", `bench/${script}`, ...process.argv.slice(2)].join(" "),
    ours: {version: ours.version, ranks: ours.ranks, threads: ours.threads},
    peer: {name: peer.name, version: peer.version, threads: peer.threads},
  };
}
