// TeX's formulas as MathML: a tree of {tag, attributes, children}, without a document. A formula with anything that this
// file does not know gives null, and the page shows it as it was written. README.md lists what it knows.

import {
  fence,
  functionName,
  group,
  leaf,
  node,
  operator,
  restyled,
  space,
  stretched,
  upright,
  word,
} from "./tex_nodes.js";
import * as symbols from "./tex_symbols.js";

const MAX_LENGTH = 4000; // characters
const MAX_DEPTH = 32; // the limit of nested parts

const TOKEN = /\\(?:[A-Za-z]+|[^A-Za-z])|\s+|[^\\]/suy;
const PLAIN_OPERATORS = new Map([..."+=<>/,;:!?.", ["-", "−"], ["*", "∗"]].map((c) => [c[0], c[1] ?? c]));

class Unsupported extends Error {}

function unsupported() {
  throw new Unsupported();
}

class Parser {
  constructor(tokens) {
    this.tokens = tokens;
    this.at = 0;
    this.depth = 0;
  }

  skipSpace() {
    while (/^\s/.test(this.tokens[this.at] ?? "")) ++this.at;
  }

  peek() {
    this.skipSpace();
    return this.tokens[this.at];
  }

  next() {
    return this.peek() === undefined ? unsupported() : this.tokens[this.at++];
  }

  expect(token) {
    if (this.next() !== token) unsupported();
  }

  takeIf(token) {
    const found = this.peek() === token;
    if (found) ++this.at;
    return found;
  }

  // Calls `parse` one level deeper.
  deeper(parse) {
    if (++this.depth > MAX_DEPTH) unsupported();
    const found = parse();
    --this.depth;
    return found;
  }

  // The parts up to a token of `ends`, which is not taken.
  row(...ends) {
    const atoms = [];
    for (let token; (token = this.peek()) !== undefined && !ends.includes(token);) {
      const style = symbols.STYLES.get(token.slice(1));
      if (style) {
        ++this.at;
        return [
          ...atoms,
          node(
            "mstyle",
            style,
            this.deeper(() => group(this.row(...ends))),
          ),
        ];
      }
      atoms.push(this.scripted());
    }
    return atoms;
  }

  // The row up to `end`, which is taken.
  rowUntil(end) {
    const found = this.deeper(() => group(this.row(end)));
    this.expect(end);
    return found;
  }

  argument() {
    return this.takeIf("{") ? this.rowUntil("}") : this.nucleus(true);
  }

  // An operator in braces has no spaces beside it: 10{,}000.
  braced() {
    const part = this.rowUntil("}");
    return part.role === "operator" && part.tag === "mo"
      ? leaf("mo", part.children[0], { lspace: "0", rspace: "0" })
      : part;
  }

  optionalArgument() {
    return this.takeIf("[") ? this.rowUntil("]") : null;
  }

  // The characters between braces, as they are.
  rawArgument() {
    this.expect("{");
    const begin = this.at;
    let open = 1;
    while (open > 0) {
      const token = this.tokens[this.at++] ?? unsupported();
      if (token === "{") ++open;
      if (token === "}") --open;
    }
    return this.tokens.slice(begin, this.at - 1).join("");
  }

  // A part with its superscript and subscript.
  scripted() {
    const first = this.peek();
    const base = first === "^" || first === "_" || first === "'" ? node("mrow", {}) : this.nucleus(false);
    let { hasLimits } = base;
    let [above, below, primes] = [null, null, ""];
    for (;;) {
      if (this.takeIf("'")) primes += "′";
      else if (this.takeIf("^")) above = above ? unsupported() : this.argument();
      else if (this.takeIf("_")) below = below ? unsupported() : this.argument();
      else if (this.takeIf("\\limits")) {
        hasLimits = true;
        base.attributes.movablelimits = "false";
      } else if (this.takeIf("\\nolimits")) hasLimits = false;
      else break;
    }
    if (primes) {
      const sign = leaf("mo", primes, { lspace: "0", rspace: "0" });
      above = above ? node("mrow", {}, sign, above) : sign;
    }
    if (!above && !below) return base;
    const [under, over, both] = hasLimits ? ["munder", "mover", "munderover"] : ["msub", "msup", "msubsup"];
    const scripts = [below, above].filter((script) => script !== null);
    const found = node(above && below ? both : above ? over : under, {}, base, ...scripts);
    return { ...found, role: base.role };
  }

  // A part without its scripts. `isArgument`: it has no braces, so that only one digit belongs to it.
  nucleus(isArgument) {
    return this.deeper(() => {
      const token = this.next();
      if (token === "{") return this.braced();
      if (token[0] === "\\") return this.command(token.slice(1));
      if (/[0-9]/.test(token)) return leaf("mn", isArgument ? token : this.number(token));
      if ("()[]|".includes(token)) return fence(token);
      if (PLAIN_OPERATORS.has(token)) return operator(PLAIN_OPERATORS.get(token));
      if (token === "~") return space(0.25);
      if (/[A-Za-z]|(?![\0-\x7f])\p{L}/u.test(token)) return leaf("mi", token);
      if (/(?![\0-\x7f])\p{N}/u.test(token)) return leaf("mn", token);
      return /(?![\0-\x7f])[\p{S}\p{P}]/u.test(token) ? operator(token) : unsupported();
    });
  }

  number(text) {
    const isDigit = (at) => /^[0-9]$/.test(this.tokens[at] ?? "");
    while (isDigit(this.at) || (this.tokens[this.at] === "." && isDigit(this.at + 1) && !text.includes("."))) {
      text += this.tokens[this.at++];
    }
    return text;
  }

  command(name) {
    if (symbols.LETTERS.has(name)) return leaf("mi", symbols.LETTERS.get(name));
    if (symbols.FENCES.has(name)) return fence(symbols.FENCES.get(name));
    if (symbols.UPRIGHT.has(name)) return upright(symbols.UPRIGHT.get(name));
    if (symbols.OPERATORS.has(name)) return operator(symbols.OPERATORS.get(name));
    if (symbols.LARGE.has(name)) return { ...operator(symbols.LARGE.get(name)), hasLimits: true };
    if (symbols.INTEGRALS.has(name)) return operator(symbols.INTEGRALS.get(name));
    if (symbols.FUNCTIONS.has(name)) return functionName(name, false);
    if (symbols.LIMITS.has(name)) return functionName(symbols.LIMITS.get(name), true);
    if (symbols.SPACES.has(name)) return space(symbols.SPACES.get(name));
    if (symbols.ACCENTS.has(name)) return this.accent(...symbols.ACCENTS.get(name));
    if (symbols.FONTS.has(name)) return this.inFont(symbols.FONTS.get(name));
    if (symbols.STRETCHED_ARROWS.has(name)) return this.arrow(symbols.STRETCHED_ARROWS.get(name));
    if (symbols.FRACTIONS.has(name))
      return node("mfrac", { ...symbols.FRACTIONS.get(name) }, this.argument(), this.argument());
    if (symbols.BINOMIALS.has(name)) return this.binomial(symbols.BINOMIALS.get(name));
    if (symbols.TEXT.has(name)) return this.text(symbols.TEXT.get(name));
    if (symbols.ACCENTS_BELOW.has(name)) {
      const below = leaf("mo", symbols.ACCENTS_BELOW.get(name), { stretchy: "true" });
      return { ...node("munder", { accentunder: "true" }, this.argument(), below), hasLimits: name === "underbrace" };
    }
    const size = /^([bB]igg?)[lrm]?$/.exec(name);
    if (size) return this.sizedFence(`${symbols.SIZES.get(size[1])}em`);
    return this.construct(name);
  }

  construct(name) {
    switch (name) {
      case "sqrt": {
        const degree = this.optionalArgument();
        return degree ? node("mroot", {}, this.argument(), degree) : node("msqrt", {}, this.argument());
      }
      case "left":
        return this.fenced();
      case "begin":
        return this.environment();
      case "overset":
      case "stackrel":
        return this.set("mover");
      case "underset":
        return this.set("munder");
      case "operatorname": {
        const hasLimits = this.takeIf("*");
        return functionName(this.plainText(), hasLimits);
      }
      case "not": {
        const part = this.nucleus(true);
        return part.tag === "mo" ? { ...part, children: [`${part.children[0]}\u0338`] } : unsupported();
      }
      case "pmod":
        return node("mrow", {}, space(1), fence("("), upright("mod"), space(0.34), this.argument(), fence(")"));
      case "bmod":
      case "mod":
        return leaf("mo", "mod", { lspace: "0.22em", rspace: "0.22em" }, "operator");
      case "tag":
        return node("mrow", {}, space(2), leaf("mtext", `(${this.plainText()})`));
      case "boxed":
        return node("mrow", { class: "boxed" }, this.argument());
      case "substack":
        this.expect("{");
        return this.table("}", "");
      default:
        return unsupported();
    }
  }

  // \overset{script}{base}
  set(tag) {
    const script = this.argument();
    const base = this.argument();
    return { ...node(tag, {}, base, script), role: base.role };
  }

  accent(sign, isStretched) {
    const above = leaf("mo", sign, { stretchy: String(isStretched) });
    return { ...node("mover", { accent: "true" }, this.argument(), above), hasLimits: sign === "⏞" };
  }

  arrow(sign) {
    const below = this.optionalArgument();
    const above = this.argument();
    const arrow = leaf("mo", sign, { stretchy: "true" });
    const padded = (part) => node("mrow", {}, space(0.3), part, space(0.3));
    return below
      ? { ...node("munderover", {}, arrow, padded(below), padded(above)), role: "operator" }
      : { ...node("mover", {}, arrow, padded(above)), role: "operator" };
  }

  // Letters in italics are not a word, because <mi> shows several letters upright.
  inFont(font) {
    const part = restyled(this.argument(), font);
    return font === "it" ? part : word(part);
  }

  binomial(style) {
    const numbers = node("mfrac", { linethickness: "0", ...style }, this.argument(), this.argument());
    return node("mrow", {}, stretched("(", "prefix"), numbers, stretched(")", "postfix"));
  }

  plainText() {
    const text = this.rawArgument()
      .replace(/\\[,;: ]/g, " ")
      .trim();
    return /^[A-Za-z0-9 -]+$/.test(text) ? text : unsupported();
  }

  text(look) {
    const text = this.rawArgument()
      .replace(/\s+/g, " ")
      .replace(/\\([%$#&_{} ])/g, "$1")
      .replace(/^ | $/g, "\u00a0");
    return /[\\{}]/.test(text) ? unsupported() : leaf("mtext", text, look ? { class: look } : {});
  }

  // The sign of a delimiter; empty for ".", which stands for none.
  delimiter() {
    const token = this.next();
    if (token[0] !== "\\") return symbols.DELIMITERS.get(token) ?? unsupported();
    const name = token.slice(1);
    const isArrow = /^(?:[uU]p|[dD]own|updown)arrow$/.test(name);
    return symbols.FENCES.get(name) ?? (isArrow ? symbols.OPERATORS.get(name) : unsupported());
  }

  sizedFence(size) {
    const sign = this.delimiter();
    return fence(sign, { stretchy: "true", symmetric: "true", minsize: size, maxsize: size });
  }

  // \left( ... \middle| ... \right)
  fenced() {
    const before = this.delimiter();
    const parts = before ? [stretched(before, "prefix")] : [];
    for (;;) {
      parts.push(this.deeper(() => group(this.row("\\middle", "\\right"))));
      if (this.next() === "\\right") break;
      parts.push(leaf("mo", this.delimiter(), { stretchy: "true", lspace: "0.17em", rspace: "0.17em" }));
    }
    const after = this.delimiter();
    if (after) parts.push(stretched(after, "postfix"));
    return node("mrow", {}, ...parts);
  }

  environment() {
    const name = this.rawArgument().trim();
    const [before, after, kind] = symbols.ENVIRONMENTS.get(name) ?? unsupported();
    if (name === "array" && !/^[lcr| ]+$/.test(this.rawArgument())) unsupported();
    if (name === "alignat*") this.rawArgument();
    const table = this.table("\\end", kind);
    if (this.rawArgument().trim() !== name) unsupported();
    if (!before && !after) return table;
    const fences = [before && stretched(before, "prefix"), table, after && stretched(after, "postfix")];
    return node("mrow", {}, ...fences.filter((part) => part !== ""));
  }

  // The space below a row: \\[2pt]
  takeHeight() {
    const [height] = /^\[-?[\d.]+(?:pt|em|ex|mm|cm)\]/.exec(this.tokens.slice(this.at, this.at + 12).join("")) ?? [""];
    this.at += height.length;
  }

  // Cells up to `end`, which is taken. A line break after the last row adds none.
  table(end, kind) {
    const rows = [[]];
    for (;;) {
      rows.at(-1).push(
        node(
          "mtd",
          {},
          this.deeper(() => group(this.row("&", "\\\\", end))),
        ),
      );
      const token = this.next();
      if (token === end) break;
      if (token === "\\\\") this.takeHeight();
      if (token !== "&") rows.push([]);
    }
    const isEmpty = ([cell, ...others]) => others.length === 0 && cell.children[0].children.length === 0;
    if (rows.length > 1 && isEmpty(rows.at(-1))) rows.pop();
    if (kind === "gathered" && rows.length === 1 && rows[0].length === 1) return rows[0][0].children[0];
    const displaystyle = kind === "aligned" || kind === "gathered" ? { displaystyle: "true" } : {};
    const cells = rows.map((row) => node("mtr", {}, ...row));
    return node("mtable", { ...(kind && { class: kind }), ...displaystyle }, ...cells);
  }
}

function tokensOf(text) {
  TOKEN.lastIndex = 0;
  const tokens = [];
  for (let found; (found = TOKEN.exec(text));) tokens.push(found[0]);
  return tokens;
}

// The tree of <math> for a formula without its delimiters, or null. `isDisplayed`: the formula has lines of its own.
export function parseFormula(text, isDisplayed) {
  if (text.length > MAX_LENGTH || text.trim() === "") return null;
  const tokens = tokensOf(text);
  try {
    const parser = new Parser(tokens);
    const row = group(parser.row());
    if (tokens.join("").length !== text.length) return null; // a backslash at the end
    return node("math", isDisplayed ? { display: "block" } : {}, row);
  } catch (error) {
    if (error instanceof Unsupported) return null;
    throw error;
  }
}
