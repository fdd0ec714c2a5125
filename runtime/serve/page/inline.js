// Markdown within a line. What a model writes is untrusted: it becomes text nodes and a few kinds of elements, never HTML; an
// image becomes a link, because loading it would tell its server what was said here.

import { element } from "./dom.js";

const MAX_DEPTH = 8;
const MAX_LABEL = 1000;
const MAX_URL = 2000;

const isSpace = (c) => c === undefined || /\s/.test(c);
const isWord = (c) => c !== undefined && /[\p{L}\p{N}]/u.test(c);

// The URL if it is one that a person may follow, else null.
export function safeUrl(text) {
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

class InlineParser {
  constructor(text, depth) {
    this.text = text;
    this.depth = depth;
    this.at = 0;
    this.plain = "";
    this.nodes = [];
    this.hopeless = new Set(); // delimiters without an end in the rest, so that hostile text takes linear time
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
      case "\\":
        return this.escape();
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

  escape() {
    const next = this.text[this.at + 1];
    if (next === undefined || !/[!-/:-@[-`{-~]/.test(next)) return false;
    this.plain += next;
    this.at += 2;
    return true;
  }

  // The length of the run of the character at `at`.
  run(at) {
    let end = at;
    while (this.text[end] === this.text[at]) ++end;
    return end - at;
  }

  code() {
    const length = this.run(this.at);
    const start = this.at + length;
    const mark = "`".repeat(length);
    if (!this.hopeless.has(mark)) {
      for (let at = this.text.indexOf(mark, start); at >= 0; at = this.text.indexOf(mark, at)) {
        const found = this.run(at);
        if (found === length) {
          let content = this.text.slice(start, at).replaceAll("\n", " ");
          if (/^ .*\S.* $/.test(content)) content = content.slice(1, -1);
          return this.add(element("code", {}, content), at + length);
        }
        at += found;
      }
      this.hopeless.add(mark);
    }
    this.plain += mark;
    this.at = start;
    return true;
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

  // Where the run of exactly `length` characters begins that ends an emphasis; -1 if there is none.
  closing(c, length) {
    const mark = c.repeat(length);
    if (this.hopeless.has(mark)) return -1;
    let at = this.at + length;
    while ((at = this.text.indexOf(mark, at)) >= 0) {
      const found = this.run(at);
      const ends = found === length && !isSpace(this.text[at - 1]) && !(c === "_" && isWord(this.text[at + found]));
      if (ends) return at;
      at += found;
    }
    this.hopeless.add(mark);
    return -1;
  }

  // [label](url "title")
  bracket(open) {
    if (this.depth >= MAX_DEPTH) return false;
    const close = this.matching(open, "[", "]", MAX_LABEL);
    if (close < 0 || this.text[close + 1] !== "(") return false;
    const end = this.matching(close + 1, "(", ")", MAX_URL);
    if (end < 0) return false;
    const target = this.text
      .slice(close + 2, end)
      .trim()
      .split(/\s/)[0]
      .replace(/^<|>$/g, "");
    const url = safeUrl(target);
    const label = this.inner(open + 1, close);
    if (url) return this.add(link(url, ...(label.length > 0 ? label : [url])), end + 1);
    // Any other kind of link stays what the model wrote.
    return this.add(this.text.slice(this.at, end + 1), end + 1);
  }

  matching(at, open, close, limit) {
    let depth = 0;
    for (let i = at; i < this.text.length && i - at <= limit; ++i) {
      if (this.text[i] === "\\") ++i;
      else if (this.text[i] === open) ++depth;
      else if (this.text[i] === close && --depth === 0) return i;
    }
    return -1;
  }

  // <https://example.org>
  angle() {
    const end = this.text.slice(this.at, this.at + MAX_URL).indexOf(">");
    if (end < 0) return false;
    const target = this.text.slice(this.at + 1, this.at + end);
    const url = /^(https?:\/\/|mailto:)\S+$/i.test(target) ? safeUrl(target) : null;
    return url !== null && this.add(link(url, target), this.at + end + 1);
  }

  bareUrl() {
    if (!this.text.startsWith("http", this.at) || isWord(this.text[this.at - 1])) return false;
    const [found] = this.text.slice(this.at, this.at + MAX_URL).match(/^https?:\/\/[^\s<>"`]+/) ?? [];
    if (!found) return false;
    const target = found.replace(/[.,;:!?'*_~)\]]+$/, "");
    const url = safeUrl(target);
    return url !== null && this.add(link(url, target), this.at + target.length);
  }
}

// Nodes and strings for a piece of text.
export function inline(text, depth = 0) {
  return new InlineParser(text, depth).parse();
}
