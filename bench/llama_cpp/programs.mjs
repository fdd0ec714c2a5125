// The two programs that are compared: each one computes logits of a text and measures tokens/s.
import {readFileSync, writeFileSync} from "node:fs";
import {join} from "node:path";

import {readNpyRows, readPeerLogits} from "./logits.mjs";
import {fail, run} from "./process.mjs";

const kAttempts = 10;

// The cells of a table in Markdown, by row.
function tableCells(text) {
  const lines = text.split("\n").filter((line) => line.startsWith("|"));
  return lines.map((line) => line.split("|").map((cell) => cell.trim()));
}

// tp-infer on several ranks.
export class Ours {
  constructor({build, ranks, threads}) {
    this.program = join(build, "bin/tp-infer");
    this.ranks = ranks;
    this.threads = threads / ranks;  // of each rank
  }

  run(words) {
    return run(["mpirun", "-np", String(this.ranks), this.program, ...words, "--threads", String(this.threads)],
               "install Open MPI (apt-get install openmpi-bin)");
  }

  quantize(checkpoint, weights, file) {
    run([this.program, "quantize", "--model", checkpoint, "--weights", weights, "--output", file],
        "build tp-infer (launch/quickstart), or give its build folder as --build");
  }

  // The logits after each token, [tokens, vocab_size].
  logits(model, ids, folder) {
    const [input, output] = [join(folder, "ids.json"), join(folder, "logits.npy")];
    writeFileSync(input, JSON.stringify(ids));
    this.run(["logits", "--model", model, "--tokens", input, "--output", output]);
    return readNpyRows(output);
  }

  // Tokens/s of `batch` texts with `prompt` tokens each: {prefill, decode}.
  rates(model, {batch, prompt, generate}) {
    const output = this.run(["bench", "--model", model, "--prompt", String(prompt), "--generate", String(generate),
                             "--batch", String(batch), "--json"]);
    const rows = output.split("\n").filter((line) => line.startsWith("{")).map((line) => JSON.parse(line));
    const rate = (phase) => rows.find((row) => row.phase === phase).tokens_per_s;
    return {prefill: rate("prefill"), decode: rate("decode")};
  }

  get version() {
    return run([this.program, "--version"]).trim().replace("tp-infer ", "");
  }
}

// The programs of llama.cpp or of a fork, as buildPeer made them.
export class Peer {
  constructor({name, version, programs}, {threads, "peer-options": more}) {
    Object.assign(this, {name, version, programs, threads});
    this.more = more.split(" ").filter((word) => word !== "");
  }

  run(program, words) {
    return run([this.programs[program], ...words, "-t", String(this.threads), ...this.more]);
  }

  // What the program computes for the first tokens of a text: see readPeerLogits.
  logits(model, text, tokens, folder) {
    const [input, output] = [join(folder, "text.txt"), join(folder, "peer.logits")];
    writeFileSync(input, text);
    this.run("llama-perplexity", ["-m", model, "-f", input, "-c", String(tokens), "-b", String(tokens), "--chunks", "1",
                                  "--kl-divergence-base", output]);
    return readPeerLogits(output);
  }

  // llama.cpp doesn't flush its log when a program ends, so the table's row may be missing. Then the program runs again.
  rates(model, {batch, prompt, generate}) {
    const words = ["-m", model, "-c", String(batch * (prompt + generate)), "-npp", String(prompt),
                   "-ntg", String(generate), "-npl", String(batch)];
    let output;
    for (let attempt = 0; attempt < kAttempts; ++attempt) {
      output = this.run("llama-batched-bench", words);
      const [head, , row] = tableCells(output);
      if (row) return {prefill: Number(row[head.indexOf("S_PP t/s")]), decode: Number(row[head.indexOf("S_TG t/s")])};
    }
    return fail(`llama-batched-bench: expected a table with a row, found:\n${output}`);
  }
}
