// Medians of ratios with their intervals, and tables of them.

const ascending = (values) => [...values].sort((a, b) => a - b);

export function median(values) {
  const sorted = ascending(values);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

// Returns how many of the smallest and of the largest of n values an interval may omit if it must contain the median
// with a probability of 0.9. Each value is above the median with a probability of 1/2, so the number of such values is
// binomial. -1: too few values.
function leftOut(n) {
  let tail = 0.5 ** n;  // the probability that at most `out` values are above the median
  let term = tail;
  let out = -1;
  while (2 * tail <= 0.1) {
    ++out;
    term *= (n - out) / (out + 1);
    tail += term;
  }
  return out;
}

// Returns [least, most], or null if there are fewer than 5 values.
export function interval90(values) {
  const out = leftOut(values.length);
  const sorted = ascending(values);
  return out < 0 ? null : [sorted[out], sorted[sorted.length - 1 - out]];
}

// Returns the medians of the tokens/s of pairs of runs, and the median ratio with its interval.
export function summary(pairs) {
  const ratios = pairs.map(({ours, peer}) => ours / peer);
  const [least, most] = interval90(ratios) ?? [null, null];
  return {
    ours: median(pairs.map(({ours}) => ours)), peer: median(pairs.map(({peer}) => peer)),
    ratio: median(ratios), least, most,
  };
}

export function cellText({ratio, least, most}) {
  return ratio.toFixed(2) + (least === null ? "" : ` (${least.toFixed(2)}–${most.toFixed(2)})`);
}

export function markdownTable(head, rows) {
  const line = (cells) => cells.map((cell) => `| ${cell}`.trimEnd()).join(" ") + " |";
  return [line(head), line(head.map(() => "---")), ...rows.map(line)].join("\n");
}
