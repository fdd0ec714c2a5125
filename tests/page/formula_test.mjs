#!/usr/bin/env node
// Formulas as MathML, without a browser.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { Session } from "node:inspector";
import test from "node:test";
import { setFlagsFromString } from "node:v8";
import { formulasIn } from "../../runtime/serve/page/formulas.js";
import { parseFormula } from "../../runtime/serve/page/tex.js";
import { FONTS, inFont } from "../../runtime/serve/page/tex_symbols.js";
import { FIXTURE, listedFormulas, symbolNames } from "./listed_formulas.mjs";
import { outline } from "./outline.mjs";

const outlineOf = (tex) => {
  const tree = parseFormula(tex, true);
  return tree && outline(tree);
};

test("the formulas in the guide have KaTeX's structure", () => {
  const { outlines } = JSON.parse(readFileSync(FIXTURE, "utf8"));
  const listed = listedFormulas();
  assert.ok(listed.length >= 60);
  assert.deepEqual(Object.keys(outlines), listed, "run write_formulas.mjs after a change of the list");
  for (const tex of listed) assert.equal(outlineOf(tex), outlines[tex], tex);
});

test("symbols are KaTeX's", () => {
  const { symbols } = JSON.parse(readFileSync(FIXTURE, "utf8"));
  const missing = symbolNames().filter((name) => symbols[`\\${name}`] === undefined);
  assert.deepEqual(missing, ["coloneqq"]);
  for (const [tex, expected] of Object.entries(symbols)) assert.equal(outlineOf(tex), expected, tex);
});

// Unicode's normalization knows which letter each letter of an alphabet stands for.
test("alphabets are Unicode's", () => {
  const letters = [..."ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789ΑΒΓΔΘΛΞΠΣΦΨΩαβγδθλμπρστφψω"];
  for (const font of new Set(FONTS.values())) {
    for (const letter of letters) assert.equal(inFont(letter, font).normalize("NFKC"), letter, `${font} ${letter}`);
  }
  assert.equal([..."ARg3β"].map((letter) => inFont(letter, "boldsymbol")).join(""), "𝑨𝑹𝒈𝟑𝜷");
  assert.equal(["bb", "cal", "frak", "bf", "sf", "tt"].map((font) => inFont("R", font)).join(""), "ℝℛℜ𝐑𝖱𝚁");
});

// KaTeX's MathML of these is broken, or has elements that are not in MathML Core.
const OTHERS = [
  ["\\overset{!}{=} \\stackrel{a}{\\to}", "mover(=; !) mover(→; a)"],
  ["\\underset{x}{y}", "munder(y; x)"],
  ["a \\bmod b", "a m o d b"],
  ["\\boxed{x = 1}", "x = 1"],
  ["x \\tag{1}", "x ( 1 )"],
  ["a₁ ≤ π × 中", "a ₁ ≤ π × 中"],
  ["\\sqrt\\frac12", "msqrt(mfrac(1; 2))"],
  ["x^\\frac12", "msup(x; mfrac(1; 2))"],
  ["\\frac\\pi2 3", "mfrac(π; 2) 3"],
  ["x^12", "msup(x; 1) 2"],
  ["f'^2", "msup(f; ′ 2)"],
  ["3.14.5", "3 . 1 4 . 5"],
  ["\\begin{pmatrix}\\end{pmatrix}", "( mtable(mtr(mtd())) )"],
  ["\\begin{cases} a \\\\ b \\\\ \\end{cases}", "{ mtable(mtr(mtd(a)); mtr(mtd(b)))"],
];

test("more formulas", () => {
  for (const [tex, expected] of OTHERS) assert.equal(outlineOf(tex), expected, tex);
});

const xml = ({ tag, attributes, children }) =>
  `<${[tag, ...Object.entries(attributes).map(([name, value]) => `${name}="${value}"`)].join(" ")}>` +
  `${children.map((child) => (typeof child === "string" ? child : xml(child))).join("")}</${tag}>`;

const OPEN = '<mo stretchy="false">(</mo>';
const CLOSE = '<mo stretchy="false">)</mo>';

// By MathML Core: a minus that is not the first of a row needs its form, parentheses stretch unless told not to, and only <mi> with
// one letter is italic.
const EXACT = [
  ["(-a)", `<mrow>${OPEN}<mo form="prefix">−</mo><mi>a</mi>${CLOSE}</mrow>`],
  ["a=-b", `<mrow><mi>a</mi><mo>=</mo><mo form="prefix">−</mo><mi>b</mi></mrow>`],
  ["a)-b", `<mrow><mi>a</mi>${CLOSE}<mo>−</mo><mi>b</mi></mrow>`],
  ["n!-1", `<mrow><mi>n</mi><mo>!</mo><mo>−</mo><mn>1</mn></mrow>`],
  ["\\ldots+1", `<mrow><mo>…</mo><mo>+</mo><mn>1</mn></mrow>`],
  [
    "2\\sin x",
    `<mrow><mn>2</mn><mspace width="0.17em"></mspace><mi>sin</mi><mspace width="0.17em"></mspace><mi>x</mi></mrow>`,
  ],
  ["\\sin(x)", `<mrow><mi>sin</mi>${OPEN}<mi>x</mi>${CLOSE}</mrow>`],
  ["\\Omega", `<mi mathvariant="normal">Ω</mi>`],
  ["\\mathrm{ab}", `<mi>ab</mi>`],
  ["\\mathit{ab}", `<mrow><mi>a</mi><mi>b</mi></mrow>`],
  ["\\mathbb{R}", `<mi>ℝ</mi>`],
  ["\\mathbf{A1}", `<mi>𝐀𝟏</mi>`],
  [
    "\\left(x\\right]",
    `<mrow><mo form="prefix" stretchy="true">(</mo><mi>x</mi><mo form="postfix" stretchy="true">]</mo></mrow>`,
  ],
  ["\\text{a  <b> }", `<mtext>a <b>\u00a0</mtext>`],
];

test("elements and attributes", () => {
  for (const [tex, expected] of EXACT) assert.equal(xml(parseFormula(tex, false)), `<math>${expected}</math>`, tex);
  assert.equal(xml(parseFormula("x", true)), '<math display="block"><mi>x</mi></math>');
});

// Nothing of them may be lost, so there is no tree.
const UNKNOWN =
  "\\foo|{|}|{{}|a}|a{|x^|x^a^b|x_a_b|\\frac{a}|\\frac|\\sqrt|\\sqrt[3|\\left( x|x \\right)|\\left( x \\right|\\left x \\right)|a & b|a \\\\ b|\\|" +
  "\\begin{matrix} a|\\begin{matrix} a \\end{pmatrix}|\\begin{foo} a \\end{foo}|\\begin{array}{x} a \\end{array}|\\end{matrix}|" +
  "\\text{\\foo}|\\text{a|\\text{{a}}|\\text|\\operatorname{\\foo}|#|%|\\def\\x{y}|\\href{javascript:x}{y}|\\class{a}{b}|\\style{a}{b}|" +
  "\\htmlId{a}{b}|\\unicode{x41}|\\require{a}|\\includegraphics{a}|\\hline|\\not x|\\(|\\)|\\[|a\u0300|\u202eabc|  |";

test("formulas with anything else are not shown as MathML", () => {
  const inputs = [...UNKNOWN.split("|"), "\\$$", "\\constructor", "\\toString", "\\__proto__"];
  for (const tex of inputs) assert.equal(parseFormula(tex, true), null, tex);
});

const noCode = (text) => (at) => at + /^`*/.exec(text.slice(at))[0].length;

// [text, the formulas in it]
const TEXTS = [
  ["$5 and $6", []],
  ["from $5 to $6, or 5$ to 6$", []],
  ["$5-$6, US$5, 5$, $ x $, $x $, $ x$", []],
  ["$5 and 6$", []],
  ["it costs $5 **or** less than 6$", []],
  ["$HOME:$PATH and $HOME/bin", []],
  ["\\$x\\$ and \\\\(x\\\\)", []],
  ["$$ $$$ $$$$ $", []],
  ["$x\ny$", []],
  ["\\(a \\(b \\)", ["b "]],
  ["\\(a\\] \\[b\\)", []],
  ["\\(open", []],
  ["$a `x$ y`", []],
  ["$x$, ($y$) $z$-axis, $n$th, $k$s; 设$t$为", ["x", "y", "z", "n", "k", "t"]],
  ["costs $5, and $x$", ["x"]],
  ["$x + \\$5$", ["x + \\$5"]],
  ["$2\\pi r$ $3 \\text{ if so or not}$ $ab = c$", ["2\\pi r", "3 \\text{ if so or not}", "ab = c"]],
  ["$$x$$ \\(y\\) \\[z\n= w\\]", ["x", "y", "z\n= w"]],
  ["as in \\[1\\] and \\[see there\\]", []],
];

test("formulas are found, and prices are not", () => {
  for (const [text, expected] of TEXTS) {
    const found = [...formulasIn(text, noCode(text)).values()].map(({ inner }) => inner);
    assert.deepEqual(found, expected, text);
  }
});

// Optimized code has no counters.
for (const flag of ["--no-opt", "--no-sparkplug", "--no-maglev"]) setFlagsFromString(flag);
const session = new Session();
session.connect();

function post(method, params) {
  let answer = null;
  session.post(method, params, (error, result) => {
    answer = error ?? result;
  });
  return answer;
}

// How often the parts of the page's functions ran, by V8's counters.
function stepsFor(run) {
  post("Profiler.takePreciseCoverage");
  run();
  return post("Profiler.takePreciseCoverage")
    .result.filter(({ url }) => /\/page\/(tex\w*|formulas)\.js/.test(url))
    .flatMap(({ functions }) => functions.flatMap(({ ranges }) => ranges.map(({ count }) => count)))
    .reduce((sum, count) => sum + count, 0);
}

const HOSTILE = [
  ..."{ } {} ^ _ x^ {^ x_1^2 \\ \\\\ & \\frac \\frac{ \\sqrt \\sqrt[ \\left( \\left \\right) \\begin{matrix} \\begin{ \\end{ \\text{ \\hat \\not ' 1 . \\, | \\mathbf \\mathbf{a \\displaystyle \\limits \\substack{ ~".split(
    " ",
  ),
  "x ",
  " ",
  "\\\\[",
];

// A formula of twice the length takes about twice the steps, and depth has a limit.
test("hostile formulas take linear time", () => {
  post("Profiler.enable");
  post("Profiler.startPreciseCoverage", { callCount: true, detailed: true });
  for (const part of HOSTILE) {
    for (const [before, after] of [
      ["", ""],
      ["\\begin{matrix}", "\\end{matrix}"],
    ]) {
      const of = (length) => before + part.repeat(length / part.length) + after;
      const steps = stepsFor(() => parseFormula(of(1900), true));
      const twice = stepsFor(() => parseFormula(of(3800), true));
      assert.ok(twice <= 2.1 * steps + 100, `${part}: ${steps} and ${twice} steps`);
    }
  }
  for (const part of ["$", "$a", "$a$", "$a ", "$$", "$$a", "$\\$", "\\(", "\\(a\\)", "\\[", "\\", "`", "*"]) {
    const of = (length) => part.repeat(length / part.length);
    const steps = stepsFor(() => formulasIn(of(6000), (at) => at + 1));
    const twice = stepsFor(() => formulasIn(of(12000), (at) => at + 1));
    assert.ok(twice <= 2.1 * steps + 100, `${part}: ${steps} and ${twice} steps`);
  }
  post("Profiler.stopPreciseCoverage");
});

test("deep and long formulas are left as they are", () => {
  for (const count of [40, 1000, 20000]) {
    assert.equal(parseFormula(`${"{".repeat(count)}x${"}".repeat(count)}`, true), null);
    assert.equal(parseFormula("\\frac{1}{".repeat(count) + "x" + "}".repeat(count), true), null);
    assert.equal(parseFormula("\\sqrt".repeat(count) + "x", true), null);
  }
  assert.equal(parseFormula("x".repeat(4001), true), null);
  assert.notEqual(parseFormula("x".repeat(4000), true), null);
});

const TAGS = new Set(
  "math mrow mi mn mo mtext mspace mfrac msqrt mroot msub msup msubsup munder mover munderover mstyle mtable mtr mtd".split(
    " ",
  ),
);
const ATTRIBUTES = new Set(
  "display displaystyle mathvariant stretchy symmetric form lspace rspace minsize maxsize movablelimits accent accentunder linethickness width class".split(
    " ",
  ),
);
const CLASSES = new Set(["bold", "italic", "boxed", "cases", "aligned", "gathered"]);

// The text of a formula is nowhere but in text nodes.
test("a formula has only the page's own elements and attributes", () => {
  const check = ({ tag, attributes, children }) => {
    assert.ok(TAGS.has(tag), tag);
    for (const [name, value] of Object.entries(attributes)) {
      assert.ok(ATTRIBUTES.has(name), name);
      assert.match(
        value,
        name === "class" ? /^[a-z]+$/ : /^(?:-?[0-9.]+(?:em)?|true|false|prefix|postfix|block|normal)$/,
      );
      if (name === "class") assert.ok(CLASSES.has(value), value);
    }
    for (const child of children) if (typeof child !== "string") check(child);
  };
  for (const tex of [...listedFormulas(), ...OTHERS.map(([tex]) => tex), ...EXACT.map(([tex]) => tex)]) {
    check(parseFormula(tex, true));
  }
});
