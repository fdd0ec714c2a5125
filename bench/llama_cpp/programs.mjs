// The two compared programs. Each one computes the logits of a text and measures tokens/s.
import {writeFileSync} from "node:fs";
import {join} from "node:path";

import {readNpyRows, readPeerLogits} from "./logits.mjs";
import {fail, run} from "./process.mjs";

const kAttempts = 10;

// Without --no-repack, llama.cpp of 2026-09 crashes in its AMX kernels with the small matrices of the demo model.
const kExactOptions = ["-ctk", "f32", "-ctv", "f32", "-fa", "off", "--no-repack"];

// Returns the object that a program printed on one line, before its notices.
const jsonIn = (output) => JSON.parse(output.split("\n").find((line) => line.startsWith("{")));

// Returns the number after `label`.
function numberAfter(label, output) {
  const text = output.slice(output.indexOf(label) + label.length);
  return Number(/-?[0-9.]+/.exec(text)?.[0]);
}

// Returns the cells of a Markdown table, by row.
function tableCells(text) {
  const lines = text.split("\n").filter((line) => line.startsWith("|"));
  return lines.map((line) => line.split("|").map((cell) => cell.trim()));
}

// tp-infer on several ranks.
export class Ours {
  constructor({build, ranks, threads}) {
    this.program = join(build, "bin/tp-infer");
    this.ranks = ranks;
    this.threads = threads / ranks;  // threads of each rank
  }

  // The command, without a subcommand.
  get command() {
    return ["mpirun", "-np", String(this.ranks), this.program];
  }

  run(words) {
    return run([...this.command, ...words, "--threads", String(this.threads)],
               "install Open MPI (apt-get install openmpi-bin)");
  }

  quantize(checkpoint, weights, file) {
    run([this.program, "quantize", "--model", checkpoint, "--weights", weights, "--output", file],
        "build tp-infer (launch/quickstart), or give its build folder as --build");
  }

  // Returns the logits after each token, [tokens, vocab_size].
  logits(model, ids, folder) {
    const [input, output] = [join(folder, "ids.json"), join(folder, "logits.npy")];
    writeFileSync(input, JSON.stringify(ids));
    this.run(["logits", "--model", model, "--tokens", input, "--output", output]);
    return readNpyRows(output);
  }

  // Returns the perplexity of the text's chunks of `context` tokens, scored like llama-perplexity does: {perplexity}.
  // Writes the file `base`.
  perplexity(model, {file, context, base}) {
    return jsonIn(this.run(["perplexity", "--model", model, "--kv-type", "f32", "--file", file, "--context",
                                String(context), "--kl-base", base, "--json"]));
  }

  // Compares the model with the file `base`: {perplexity, mean_kld, maximum_kld, same_top}.
  divergence(model, base) {
    const {perplexity, divergence} =
        jsonIn(this.run(["perplexity", "--model", model, "--kv-type", "f32", "--kl-base", base, "--json"]));
    return {perplexity, mean_kld: divergence.mean_kld.value, maximum_kld: divergence.kld.maximum,
            same_top: divergence.same_top.value};
  }

  // Returns the tokens/s of `batch` texts with `prompt` tokens each: {prefill, decode}.
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

// The programs of llama.cpp or a fork, built by buildPeer.
export class Peer {
  constructor({name, version, programs}, {threads, "peer-options": more}) {
    Object.assign(this, {name, version, programs, threads});
    this.more = more.split(" ").filter((word) => word !== "");
  }

  run(program, words) {
    return run([this.programs[program], ...words, "-t", String(this.threads), ...this.more]);
  }

  // Returns the peer's logits for the first tokens of a text: see readPeerLogits.
  logits(model, text, tokens, folder) {
    const [input, output] = [join(folder, "text.txt"), join(folder, "peer.logits")];
    writeFileSync(input, text);
    this.run("llama-perplexity", ["-m", model, "-f", input, "-c", String(tokens), "-b", String(tokens), "--chunks", "1",
                                  "--kl-divergence-base", output]);
    return readPeerLogits(output);
  }

  // llama.cpp doesn't flush its log when a program ends. If the last lines are missing, the program runs again.
  runUntil(has, program, words) {
    for (let attempt = 1;; ++attempt) {
      const output = this.run(program, words);
      if (has(output)) return output;
      if (attempt === kAttempts) return fail(`${program}: expected results, found:\n${output}`);
    }
  }

  // Returns the numbers after the labels, {name: label}.
  numbers(labels, words) {
    const has = (output) => Object.values(labels).every((label) => output.includes(label));
    const output = this.runUntil(has, "llama-perplexity", words);
    return Object.fromEntries(Object.entries(labels).map(([name, label]) => [name, numberAfter(label, output)]));
  }

  // See Ours. Keys and values are f32, as in our runs.
  perplexity(model, {file, context, base}) {
    return this.numbers({perplexity: "Final estimate: PPL ="},
                        [...kExactOptions, "-m", model, "-f", file, "-c", String(context), "-b", String(context),
                         "--kl-divergence-base", base]);
  }

  divergence(model, base, context) {
    const found = this.numbers({perplexity: "Mean PPL(Q)", mean_kld: "Mean    KLD:", maximum_kld: "Maximum KLD:",
                                same_top: "Same top p:"},
                               [...kExactOptions, "-m", model, "-c", String(context), "-b", String(context),
                                "--kl-divergence", "--kl-divergence-base", base]);
    return {...found, same_top: found.same_top / 100};
  }

  rates(model, {batch, prompt, generate}) {
    const words = ["-m", model, "-c", String(batch * (prompt + generate)), "-npp", String(prompt),
                   "-ntg", String(generate), "-npl", String(batch)];
    const [head, , row] = tableCells(this.runUntil((output) => tableCells(output).length > 2, "llama-batched-bench", words));
    return {prefill: Number(row[head.indexOf("S_PP t/s")]), decode: Number(row[head.indexOf("S_TG t/s")])};
  }
}
