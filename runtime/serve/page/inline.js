// Markdown within a line, with formulas. What a model writes is untrusted: it becomes text nodes and a few kinds of elements,
// never HTML; an image becomes a link, because loading it would tell its server what was said here.

import { element, mathElement } from "./dom.js";
import { formulasIn } from "./formulas.js";
import { parseFormula } from "./tex.js";

const MAX_DEPTH = 8;
const MAX_LABEL = 1000;
const MAX_URL = 2000;

const BARE_URL = new RegExp(`https?://[^\\s<>"\`]{1,${MAX_URL}}`, "y");
const ANGLE_URL = new RegExp(`<((?:https?://|mailto:)[^\\s<>]{1,${MAX_URL}})>`, "iy");

const isSpace = (c) => c === undefined || /\s/.test(c);
const isWord = (c) => c !== undefined && /[\p{L}\p{N}]/u.test(c);

// Returns the URL if its scheme is allowed, or null.
function safeUrl(text) {
  try {
    const url = new URL(text);
    return ["http:", "https:", "mailto:"].includes(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
}

function link(url, ...children) {
  return element("a", { href: url, target: "_blank", rel: "noopener noreferrer nofollow" }, ...children);
}

// Returns the match that begins at `at`, or null. `pattern` must be sticky.
function matchAt(pattern, text, at) {
  pattern.lastIndex = at;
  return pattern.exec(text);
}

// Returns a map from the index of an opening character to the index of its closing character.
function pairs(text, open, close) {
  const closing = new Map();
  const pending = [];
  for (let i = 0; i < text.length; ++i) {
    if (text[i] === "\\") ++i;
    else if (text[i] === open) pending.push(i);
    else if (text[i] === close && pending.length > 0) closing.set(pending.pop(), i);
  }
  return closing;
}

// A formula, or its source if it has anything that the page cannot show.
function formulaElement(source, { inner, isDisplayed }) {
  const tree = parseFormula(inner, isDisplayed);
  if (!tree) return element("span", { class: "tex" }, source);
  if (!isDisplayed) return mathElement(tree);
  return element(
    "span",
    { class: "formula", tabindex: "0", role: "group", "aria-label": "Formula" },
    mathElement(tree),
  );
}

// The spaces beside code that begins or ends with a backtick are no part of it.
function withoutPadding(code) {
  return code.startsWith(" ") && code.endsWith(" ") && code.trim() !== "" ? code.slice(1, -1) : code;
}

// Parses any text in linear time. For this, the parser searches only once for the end of each kind of delimiter.
class InlineParser {
  constructor(text, depth) {
    this.text = text;
    this.depth = depth;
    this.at = 0;
    this.plain = "";
    this.nodes = [];
    this.hopeless = new Set(); // emphasis delimiters without an end in the rest of the text
    this.noUrlBefore = 0; // end of the last text that started like a URL
  }

  parse() {
    while (this.at < this.text.length) {
      if (!this.special()) this.plain += this.text[this.at++];
    }
    this.flush();
    return this.nodes;
  }

  flush() {
    if (this.plain) this.nodes.push(this.plain);
    this.plain = "";
  }

  add(node, end) {
    this.flush();
    this.nodes.push(node);
    this.at = end;
    return true;
  }

  inner(start, end) {
    return inline(this.text.slice(start, end), this.depth + 1);
  }

  special() {
    switch (this.text[this.at]) {
      case "$":
        return this.formula();
      case "\\":
        return this.formula() || this.escape();
      case "\n":
        return this.add(element("br"), this.at + 1);
      case "`":
        return this.code();
      case "*":
      case "_":
      case "~":
        return this.emphasis();
      case "!":
        return this.text[this.at + 1] === "[" && this.bracket(this.at + 1);
      case "[":
        return this.bracket(this.at);
      case "<":
        return this.angle();
      case "h":
        return this.bareUrl();
      default:
        return false;
    }
  }

  findFormulas() {
    this.formulas ??= formulasIn(this.text, (at) => this.afterCode(at));
    return this.formulas;
  }

  formula() {
    const found = this.findFormulas().get(this.at);
    return found !== undefined && this.add(formulaElement(this.text.slice(this.at, found.end), found), found.end);
  }

  // Brackets keep their backslash: they may belong to a formula that is not complete yet.
  escape() {
    const next = this.text[this.at + 1];
    if (next === undefined || !/[!-/:-@[-`{-~]/.test(next)) return false;
    this.plain += "()[]".includes(next) ? `\\${next}` : next;
    this.at += 2;
    return true;
  }

  // Returns how often the character at `at` is repeated.
  run(at) {
    let end = at;
    while (this.text[end] === this.text[at]) ++end;
    return end - at;
  }

  codeEnd(at) {
    this.codeEnds ??= this.findCodeEnds();
    return this.codeEnds.get(at);
  }

  afterCode(at) {
    return (this.codeEnd(at) ?? at) + this.run(at);
  }

  code() {
    const length = this.run(this.at);
    const start = this.at + length;
    const end = this.codeEnd(this.at);
    if (end === undefined) {
      this.plain += this.text.slice(this.at, start);
      this.at = start;
      return true;
    }
    const content = this.text.slice(start, end).replaceAll("\n", " ");
    return this.add(element("code", {}, withoutPadding(content)), end + length);
  }

  // Returns a map from the index of a run of backticks to the index of the next run of the same length.
  findCodeEnds() {
    const ends = new Map();
    const next = new Map(); // next index; key: length of the run
    const runs = [...this.text.matchAll(/`+/g)];
    for (const {
      0: { length },
      index,
    } of runs.reverse()) {
      if (next.has(length)) ends.set(index, next.get(length));
      next.set(length, index);
    }
    return ends;
  }

  emphasis() {
    const c = this.text[this.at];
    const length = Math.min(this.run(this.at), c === "~" ? 2 : 3);
    const before = this.text[this.at - 1];
    const opens = !isSpace(this.text[this.at + length]) && !(c === "_" && isWord(before));
    const end = opens && this.depth < MAX_DEPTH && !(c === "~" && length === 1) ? this.closing(c, length) : -1;
    if (end < 0) {
      const all = this.run(this.at);
      this.plain += c.repeat(all);
      this.at += all;
      return true;
    }
    const children = this.inner(this.at + length, end);
    if (c === "~") return this.add(element("del", {}, ...children), end + length);
    if (length === 1) return this.add(element("em", {}, ...children), end + length);
    const strong = element("strong", {}, ...children);
    return this.add(length === 2 ? strong : element("em", {}, strong), end + length);
  }

  // Returns the position of the run of exactly `length` characters that ends an emphasis, or -1 if there is none.
  closing(c, length) {
    const mark = c.repeat(length);
    if (this.hopeless.has(mark)) return -1;
    let at = this.at + length;
    while ((at = this.text.indexOf(mark, at)) >= 0) {
      const after = this.afterFormula(at);
      if (after > at) {
        at = after;
        continue;
      }
      const found = this.run(at);
      const ends = found === length && !isSpace(this.text[at - 1]) && !(c === "_" && isWord(this.text[at + found]));
      if (ends) return at;
      at += found;
    }
    this.hopeless.add(mark);
    return -1;
  }

  // The end of the formula around `at`; `at` outside of formulas.
  afterFormula(at) {
    const formulas = this.findFormulas();
    this.begins ??= [...formulas.keys()];
    let [low, high] = [0, this.begins.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.begins[middle] <= at) low = middle + 1;
      else high = middle;
    }
    return low > 0 ? Math.max(at, formulas.get(this.begins[low - 1]).end) : at;
  }

  // [label](url "title")
  bracket(open) {
    if (this.depth >= MAX_DEPTH) return false;
    this.brackets ??= pairs(this.text, "[", "]");
    const close = this.brackets.get(open);
    if (!(close - open <= MAX_LABEL) || this.text[close + 1] !== "(") return false;
    this.parentheses ??= pairs(this.text, "(", ")");
    const end = this.parentheses.get(close + 1);
    if (!(end - close <= MAX_URL)) return false;
    const target = this.text
      .slice(close + 2, end)
      .trim()
      .split(/\s/)[0]
      .replace(/^<|>$/g, "");
    const url = safeUrl(target);
    const label = this.inner(open + 1, close);
    if (url) return this.add(link(url, ...(label.length > 0 ? label : [url])), end + 1);
    // Other kinds of links remain plain text.
    return this.add(this.text.slice(this.at, end + 1), end + 1);
  }

  // <https://example.org>
  angle() {
    const [found, target] = matchAt(ANGLE_URL, this.text, this.at) ?? [];
    const url = found ? safeUrl(target) : null;
    return url !== null && this.add(link(url, target), this.at + found.length);
  }

  bareUrl() {
    if (this.at < this.noUrlBefore || isWord(this.text[this.at - 1])) return false;
    const [found] = matchAt(BARE_URL, this.text, this.at) ?? [];
    if (!found) return false;
    let length = found.length;
    while (".,;:!?'*_~)]".includes(found[length - 1])) --length;
    const target = found.slice(0, length);
    const url = safeUrl(target);
    this.noUrlBefore = this.at + found.length;
    return url !== null && this.add(link(url, target), this.at + length);
  }
}

// Returns nodes and strings for a piece of text.
export function inline(text, depth = 0) {
  return new InlineParser(text, depth).parse();
}
