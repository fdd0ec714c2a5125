// Compares the logits that two programs compute with one file of weights.
import {readFileSync} from "node:fs";

// The file that `llama-perplexity --kl-divergence-base` writes of a text's chunks: their token ids, and for the second
// half of each chunk's positions the logarithms of all tokens' probabilities, rounded to 65536 steps. Returns {ids,
// first, rows}: the first row of each chunk has the logarithms after position `first`, in steps of `step`, none below
// its `least`, [vocab_size].
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

// The rows of a .npy file of float32 [rows, columns].
export function readNpyRows(path) {
  const bytes = readFileSync(path);
  const isFirstVersion = bytes[6] === 1;
  const begin = isFirstVersion ? 10 + bytes.readUInt16LE(8) : 12 + bytes.readUInt32LE(8);
  const [, rows, columns] = /'shape': \((\d+), (\d+)\)/.exec(bytes.toString("latin1", 0, begin)).map(Number);
  return Array.from({length: rows}, (_, i) =>
      Float64Array.from({length: columns}, (_, j) => bytes.readFloatLE(begin + 4 * (i * columns + j))));
}

// The logarithms of the probabilities, of a row of logits.
export function logProbabilities(logits) {
  const most = logits.reduce((a, b) => Math.max(a, b));
  const sum = logits.reduce((total, logit) => total + Math.exp(logit - most), 0);
  return logits.map((logit) => logit - most - Math.log(sum));
}

// The root mean square of the differences between the logarithms of both programs' probabilities, relative to
// their standard deviation within a row. 0 means equal; unrelated logits have about 1.4.
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

// The largest difference between two such files' rows, in steps of the larger step.
export function largestDifferenceInSteps(one, other) {
  const ofRow = (a, b) => {
    const step = Math.max(a.step, b.step);
    return a.values.reduce((most, value, i) => Math.max(most, Math.abs(value - b.values[i]) / step), 0);
  };
  return one.rows.reduce((most, row, i) => Math.max(most, ofRow(row, other.rows[i])), 0);
}
