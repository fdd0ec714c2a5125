// Finds formulas in a text: $…$, $$…$$, \(…\) and \[…\]. A price is none: "$5 and $6".

const MAX_LENGTH = 4000; // characters between delimiters
const CLOSED_BY = { "(": ")", "[": "]" };
const BRACKET = /\\[()[\]]/g;

// A letter or digit before the first dollar, or after the last one, as in US$5 and $a/$b. "$n$th" is a formula.
const isWord = (c) => c !== undefined && /[A-Za-z0-9]/.test(c);
const AFTER_DOLLAR = /(?:th|st|nd|rd|s)?(?![A-Za-z0-9])/y;

// Words that are not in braces, or one after a number.
const PROSE = /(?:^|[^A-Za-z])[A-Za-z]{2,}[,;:]? +[A-Za-z]{2,}|^\d[\d.,]*[\s;:,]+[A-Za-z]{2,}/;

function isProse(inner) {
  return PROSE.test(inner.replace(/\\[A-Za-z]+(?:\s*\{[^{}]*\})?/g, "\\"));
}

// More than words and numbers, which have escaped brackets in Markdown: \[1\].
const isMath = (inner) => /[^\w\s,.;:]/.test(inner);

function mayBeFormula(inner) {
  return inner.length <= MAX_LENGTH && inner.trim() !== "" && !inner.includes("`");
}

function endOfRun(text, at) {
  let end = at;
  while (text[end] === text[at]) ++end;
  return end;
}

// The index of the next dollar that is not escaped, or -1.
function nextDollar(text, at) {
  for (;;) {
    at = text.indexOf("$", at);
    if (at < 0 || text[at - 1] !== "\\") return at;
    ++at;
  }
}

// \( or \[ at `at`. The next delimiter must be the one that closes it.
function bracketed(text, at) {
  const close = CLOSED_BY[text[at + 1]];
  BRACKET.lastIndex = at + 2;
  const found = close && BRACKET.exec(text);
  if (!found || found[0][1] !== close) return null;
  const inner = text.slice(at + 2, found.index);
  const isDisplayed = close === "]";
  return isDisplayed && !isMath(inner) ? null : { inner, end: found.index + 2, isDisplayed };
}

function betweenDollars(text, at) {
  const close = nextDollar(text, at + 1);
  if (close < 0) return null;
  const inner = text.slice(at + 1, close);
  AFTER_DOLLAR.lastIndex = close + 1;
  const isGood =
    !isWord(text[at - 1]) && !/^\s|\s$|\n/.test(inner) && AFTER_DOLLAR.test(text) && text[close + 1] !== "$";
  return isGood && mayBeFormula(inner) && !isProse(inner) ? { inner, end: close + 1, isDisplayed: false } : null;
}

function betweenDoubleDollars(text, at) {
  const close = text.indexOf("$$", at + 2);
  return close < 0 ? null : { inner: text.slice(at + 2, close), end: close + 2, isDisplayed: true };
}

function formulaAt(text, at) {
  if (text[at] === "\\") return bracketed(text, at);
  return text[at + 1] === "$" ? betweenDoubleDollars(text, at) : betweenDollars(text, at);
}

// By its first index, in order: {inner, end, isDisplayed} of each formula. `afterCode(at)`: the index after the code that begins at `at`.
export function formulasIn(text, afterCode) {
  const found = new Map();
  for (let at = 0; at < text.length;) {
    if (text[at] === "`") {
      at = afterCode(at);
    } else if (text[at] === "$" && endOfRun(text, at) > at + 2) {
      at = endOfRun(text, at);
    } else if (text[at] === "$" || text[at] === "\\") {
      const formula = formulaAt(text, at);
      const isGood = formula !== null && mayBeFormula(formula.inner);
      if (isGood) found.set(at, formula);
      at = isGood ? formula.end : at + (text[at] === "\\" || text[at + 1] === "$" ? 2 : 1);
    } else {
      ++at;
    }
  }
  return found;
}

// The line after a formula that begins with line `at` and ends in a later one; 0 if there is none. A blank line ends no formula.
export function endOfFormula(lines, at) {
  const open = /^ {0,3}(\$\$|\\\[)(?!\$)/.exec(lines[at])?.[1];
  if (!open) return 0;
  const close = open === "$$" ? "$$" : "\\]";
  if (lines[at].indexOf(close, lines[at].indexOf(open) + 2) >= 0) return 0;
  for (let i = at + 1; i < lines.length && lines[i].trim() !== ""; ++i) {
    if (lines[i].includes(close)) return i + 1;
    if (lines[i].includes(open)) return 0;
  }
  return 0;
}
