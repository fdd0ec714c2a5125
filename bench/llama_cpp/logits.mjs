// Compares the logits of two programs for the same file of weights.
import {readFileSync} from "node:fs";

// Reads a file that `llama-perplexity --kl-divergence-base` writes for chunks of a text. It contains the chunks' token
// ids. For the second half of each chunk's positions, it also contains the log-probabilities of all tokens, rounded to
// 65536 steps. Returns {ids, first, rows}. Each chunk's first row belongs to position `first`. A row contains
// [vocab_size] values in steps of `step`, none below `least`.
export function readPeerLogits(path) {
  const bytes = readFileSync(path);
  if (bytes.toString("latin1", 0, 8) !== "_logits_") throw new Error(`${path}: expected logits of llama-perplexity`);
  const [length, vocab, chunks] = [8, 12, 16].map((offset) => bytes.readInt32LE(offset));
  const ids = Array.from({length: length * chunks}, (_, i) => bytes.readInt32LE(20 + 4 * i));
  const first = Math.floor(length / 2);
  const rowBytes = 2 * (2 * Math.ceil(vocab / 2) + 4);
  const rows = Array.from({length: chunks * (length - 1 - first)}, (_, i) => {
    const begin = 20 + 4 * length * chunks + i * rowBytes;
    const [step, least] = [bytes.readFloatLE(begin), bytes.readFloatLE(begin + 4)];
    const values = Float64Array.from({length: vocab}, (_, j) => least + step * bytes.readUInt16LE(begin + 8 + 2 * j));
    return {step, least, values};
  });
  return {ids, first, rows};
}

// Returns the rows of a .npy file with float32 elements [rows, columns].
export function readNpyRows(path) {
  const bytes = readFileSync(path);
  const isFirstVersion = bytes[6] === 1;
  const begin = isFirstVersion ? 10 + bytes.readUInt16LE(8) : 12 + bytes.readUInt32LE(8);
  const [, rows, columns] = /'shape': \((\d+), (\d+)\)/.exec(bytes.toString("latin1", 0, begin)).map(Number);
  return Array.from({length: rows}, (_, i) =>
      Float64Array.from({length: columns}, (_, j) => bytes.readFloatLE(begin + 4 * (i * columns + j))));
}

// Returns the log-probabilities for a row of logits.
export function logProbabilities(logits) {
  const most = logits.reduce((a, b) => Math.max(a, b));
  const sum = logits.reduce((total, logit) => total + Math.exp(logit - most), 0);
  return logits.map((logit) => logit - most - Math.log(sum));
}

// Returns the root mean square of the differences between both programs' log-probabilities, relative to the standard
// deviation within a row. 0 means equal. Unrelated logits give about 1.4.
export function relativeDifference(peer, ours) {
  let differences = 0;
  let deviations = 0;
  peer.rows.forEach(({least, values}, i) => {
    const own = logProbabilities(ours[peer.first + i]);
    const mean = values.reduce((a, b) => a + b) / values.length;
    values.forEach((value, j) => {
      differences += (Math.max(own[j], least) - value) ** 2;
      deviations += (value - mean) ** 2;
    });
  });
  return Math.sqrt(differences / deviations);
}

// Returns the largest difference between the rows of two such files, in steps of the row with larger steps.
export function largestDifferenceInSteps(one, other) {
  const ofRow = (a, b) => {
    const step = Math.max(a.step, b.step);
    return a.values.reduce((most, value, i) => Math.max(most, Math.abs(value - b.values[i]) / step), 0);
  };
  return one.rows.reduce((most, row, i) => Math.max(most, ofRow(row, other.rows[i])), 0);
}
