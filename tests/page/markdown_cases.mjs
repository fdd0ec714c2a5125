// The page's display of a model's text, and that none of it runs.

import assert from "node:assert/strict";
import { HOSTILE } from "./mock_texts.mjs";
import { ask, count, done, ready } from "./page_steps.mjs";

async function assertHarmless(page) {
  await page.evaluate("new Promise((resolve) => setTimeout(resolve, 300))");
  assert.equal(await page.evaluate("window.harmed"), undefined, "nothing that the model said was run");
  assert.equal(
    await page.evaluate(count(".prose :is(script, img, style, iframe, svg.x, object, embed, form, input)")),
    0,
  );
  const attributes = await page.evaluate(
    `[...document.querySelectorAll(".prose *")].flatMap((node) => node.getAttributeNames()).filter((name) => name.startsWith("on") || name === "style")`,
  );
  assert.deepEqual(attributes, []);
  const links = await page.evaluate(`[...document.querySelectorAll(".prose a")].map(({ href, rel }) => [href, rel])`);
  assert.ok(links.length >= 4, "good links are links");
  for (const [href, rel] of links) {
    assert.match(href, /^(https?|mailto):/);
    assert.match(rel, /noopener/);
  }
  const foreign = page.requests.filter((url) => url.includes("example.invalid"));
  assert.deepEqual(foreign, [], "no picture is fetched");
}

// Shows a text as if the model had written it. It comes from the stored conversation, so this works with any server.
async function hostileTextIsHarmless({ page, shot }) {
  const conversation = {
    id: "00",
    mode: "chat",
    title: "Hostile",
    system: "",
    created: 0,
    updated: 0,
    text: "",
    leaf: "b",
    messages: {
      a: { id: "a", parent: null, role: "user", content: HOSTILE },
      b: { id: "b", parent: "a", role: "assistant", content: HOSTILE, reasoning: HOSTILE },
    },
  };
  await page.evaluate(
    `localStorage.setItem("tp-infer.conversation.00", ${JSON.stringify(JSON.stringify(conversation))})`,
  );
  await page.evaluate(`location.hash = "#/c/00"`);
  await page.until(`${count(".prose a")} > 0`);
  await page.evaluate(`document.querySelectorAll("details").forEach((node) => (node.open = true))`);
  await assertHarmless(page);
  await shot("hostile");
}

async function hostileStreamIsHarmless({ page }) {
  await ask(page, "hostile");
  await page.until(done);
  await assertHarmless(page);
}

async function runsNoScriptOfOthers({ page }) {
  const policy = await page.evaluate(`fetch("./").then(({ headers }) => headers.get("Content-Security-Policy"))`);
  assert.match(policy, /default-src 'self'/);
  assert.doesNotMatch(policy, /unsafe/);
  await page.until(ready);
  assert.deepEqual(page.problems, [], "the page itself keeps to the policy");
  await page.evaluate(`{
    const script = document.createElement("script");
    try { script.textContent = "window.harmed = 1"; } catch {} // trusted types refuse even this
    document.body.append(script);
  }`);
  assert.equal(await page.evaluate("window.harmed"), undefined);
  page.problems.length = 0;
}

// [Markdown, the elements and texts of it]. What CommonMark and GitHub's tables say, except that a line break is kept,
// headings are two levels lower, and there are formulas.
const RENDERED = [
  ["a *b* **c** ***d*** ~~e~~", "<p>a <em>b</em> <strong>c</strong> <em><strong>d</strong></em> <del>e</del></p>"],
  ["snake_case_name and 2 * 3 * 4", "<p>snake_case_name and 2 * 3 * 4</p>"],
  ["**a *b* c**", "<p><strong>a <em>b</em> c</strong></p>"],
  ["*a **b** c*", "<p><em>a <strong>b</strong> c</em></p>"],
  ["\\*a\\* \\`", "<p>*a* `</p>"],
  ["`a*b*` ``c`d``", "<p><code>a*b*</code> <code>c`d</code></p>"],
  ["**open", "<p>**open</p>"],
  ["one\ntwo\n\nthree", "<p>one<br>two</p><p>three</p>"],
  ["# a\n## b ##\ntext", "<h3>a</h3><h4>b</h4><p>text</p>"],
  ["- a\n- b\n  - c\n\n1. d\n2. e", "<ul><li>a</li><li>b<ul><li>c</li></ul></li></ul><ol><li>d</li><li>e</li></ol>"],
  ["3. a\n4. b", '<ol start="3"><li>a</li><li>b</li></ol>'],
  ["- a\n\n  b\n- c", "<ul><li><p>a</p><p>b</p></li><li>c</li></ul>"],
  ["> a\n> > b", "<blockquote><p>a</p><blockquote><p>b</p></blockquote></blockquote>"],
  ["a\n***\nb", "<p>a</p><hr><p>b</p>"],
  [
    "x | y\n--|:-:\n1 | `2|3`",
    "<table><thead><tr><th>x</th><th>y</th></tr></thead><tbody><tr><td>1</td><td><code>2|3</code></td></tr></tbody></table>",
  ],
  [
    "a|b|c\n-|-|-\n1|\n1|2|3|4",
    "<table><thead><tr><th>a</th><th>b</th><th>c</th></tr></thead><tbody><tr><td>1</td><td></td></tr><tr><td>1</td><td>2</td><td>3</td></tr></tbody></table>",
  ],
  ["a|b\n- |x", "<p>a|b</p><ul><li>|x</li></ul>"],
  ["`` `a` `` ` `` ` ` b`", "<p><code>`a`</code> <code>``</code> <code> b</code></p>"],
  ["[a](b [c](https://d.e)", '<p>[a](b <a href="https://d.e/">c</a></p>'],
  [
    "<http://<https://a.b> http://[https://c.d",
    '<p>&lt;http://<a href="https://a.b/">https://a.b</a> http://[https://c.d</p>',
  ],
  ["```c\n\ta **b**\n```\nc", "<pre><code>\ta **b**</code></pre><p>c</p>"],
  ["```\nnot closed", "<pre><code>not closed</code></pre>"],
  ["- a\n  ```\n  b\n\n  c\n  ```\n- d", "<ul><li>a<pre><code>b\n\nc</code></pre></li><li>d</li></ul>"],
  ["the 1. place\n2021. A year", "<p>the 1. place<br>2021. A year</p>"],
  ["<b>x</b> &amp;", "<p>&lt;b&gt;x&lt;/b&gt; &amp;amp;</p>"],
  [
    "[a](https://b.c/d_(e)) (https://f.g).",
    '<p><a href="https://b.c/d_(e)">a</a> (<a href="https://f.g/">https://f.g</a>).</p>',
  ],
  ["[x] and [y](not a url)", "<p>[x] and [y](not a url)</p>"],
  ["$x$ is \\(y\\)", "<p><math><mi>x</mi></math> is <math><mi>y</mi></math></p>"],
  ["$5 and $6", "<p>$5 and $6</p>"],
  ["`$x$ \\(y\\)`", "<p><code>$x$ \\(y\\)</code></p>"],
  ["```\n$x$\n\\[y\\]\n```", "<pre><code>$x$\n\\[y\\]</code></pre>"],
  ["a $\\foo_a_b_{*c*}$ \\(\\{\\_ \\\\\\) d", "<p>a $\\foo_a_b_{*c*}$ \\(\\{\\_ \\\\\\) d</p>"],
  ["\\[open \\) \\] \\(", "<p>\\[open \\) \\] \\(</p>"],
  [
    "*let $x^*$ be* **$a**b$**",
    "<p><em>let <math><msup><mi>x</mi><mo>∗</mo></msup></math> be</em> <strong><math><mrow><mi>a</mi><mo>∗</mo><mo>∗</mo><mi>b</mi></mrow></math></strong></p>",
  ],
  [
    "so\n\\[\na\n- b\n> 1\n\\]\nend",
    "<p>so</p><p><math><mrow><mi>a</mi><mo>−</mo><mi>b</mi><mo>&gt;</mo><mn>1</mn></mrow></math></p><p>end</p>",
  ],
  ["1. a\n\n   $$\n   b\n   $$\n2. c", "<ol><li><p>a</p><p><math><mi>b</mi></math></p></li><li>c</li></ol>"],
  ["$$\na\n\n- b\n$$", "<p>$$<br>a</p><ul><li>b<br>$$</li></ul>"],
  ["$$\n\\foo\n$$", "<p>$$\n\\foo\n$$</p>"],
  [
    "# $x$\n- $y$\n> $z$",
    "<h3><math><mi>x</mi></math></h3><ul><li><math><mi>y</mi></math></li></ul><blockquote><p><math><mi>z</mi></math></p></blockquote>",
  ],
];

async function rendersEachPartOfMarkdown({ page }) {
  const found = await page.evaluate(`(async () => {
    const { MarkdownView } = await import("/markdown.js");
    const show = (node) => {
      if (node.nodeType === Node.TEXT_NODE) return node.data.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
      const inside = [...node.childNodes].map(show).join("");
      const name = node.localName;
      if (["div", "figure", "span"].includes(name)) return inside;
      if (name === "figcaption") return "";
      if (["br", "hr"].includes(name)) return "<" + name + ">";
      const kept = name === "a" ? ' href="' + node.getAttribute("href") + '"' : name === "ol" && node.start !== 1 ? ' start="' + node.start + '"' : "";
      return "<" + name + kept + ">" + inside + "</" + name + ">";
    };
    return ${JSON.stringify(RENDERED.map(([source]) => source))}.map((source) => {
      const whole = document.createElement("div");
      new MarkdownView(whole).update(source);
      const grown = document.createElement("div");
      const view = new MarkdownView(grown);
      for (let end = 1; end <= source.length; ++end) view.update(source.slice(0, end));
      return [show(whole), grown.textContent === whole.textContent && show(grown) === show(whole)];
    });
  })()`);
  RENDERED.forEach(([source, expected], i) => {
    assert.equal(found[i][0], expected, source);
    assert.ok(found[i][1], `letter by letter the same as at once: ${source}`);
  });
}

// Texts of about `n` characters, as expressions.
const STRANGE = [
  ..."**a |`a``|[a](|![|[|[]|[](|]|[[a](http://b)|> |- |*a |*a* |**a*|_a_b |*_~|~~a|(((|\\|\\[|# |#|h|http|http://|http://a|http://[|<|<http://|<a:|    - - |- - |1. |- a\n|- a\n\n|- a\n b\n|-\n|> - |> a\n|>\n> - |\n| \n|```\n|```|~~~\n|- ```\n  |- ~~~\n\n|a\n|a\n- |***\n|- - x\n|\t- "
    .split("|")
    .concat(["|", "|a", "||", "|a\n", "|-\n", "a|\n-|\n", "| - |\n", "|:"])
    .map((part) => `${JSON.stringify(part)}.repeat(n / ${part.length})`),
  ...[
    "$",
    "$a",
    "$a$",
    "$a ",
    "$$",
    "$$a",
    "$\\$",
    "$`",
    "\\(",
    "\\)",
    "\\[",
    "\\]",
    "\\(a\\)",
    "\\[\n",
    "$$\n",
    "\\[\na\n\\]\n",
    "*$a$",
    "{",
  ].map((part) => `${JSON.stringify(part)}.repeat(n / ${part.length})`),
  `"$" + "{".repeat(n / 2) + "}".repeat(n / 2) + "$"`,
  `("$" + "{".repeat(1000) + "}".repeat(1000) + "$ ").repeat(n / 2000)`,
  `("\\\\[" + "\\\\frac{".repeat(500) + "\\\\]").repeat(n / 3000)`,
  `"$$\\n" + "a\\n".repeat(n / 2)`,
  `("$$\\n" + "a\\n".repeat(50) + "\\n").repeat(n / 100)`,
  `"*" + "$a$*".repeat(n / 4)`,
  `"\`".repeat(n)`,
  `Array.from({ length: Math.sqrt(2 * n) }, (_, i) => "\`".repeat(i + 1)).join(" ")`,
  `Array.from({ length: Math.sqrt(2 * n) }, (_, i) => "*".repeat(i + 1)).join("a")`,
  `"\`\`\`\\n" + "\`\`\\n".repeat(n / 3)`,
  `"\` " + "a".repeat(n) + "\`"`,
  `"\` " + " ".repeat(n) + "\`"`,
  `"a" + " ".repeat(n) + "b"`,
  `"# " + "#".repeat(n) + "a"`,
  `"# " + " #".repeat(n / 2) + "a"`,
  `"# a" + " ".repeat(n) + "b"`,
  `"http://a" + ".".repeat(n)`,
  `"http://a" + ".)".repeat(n / 2) + "b"`,
  `"[".repeat(n / 2) + "]".repeat(n / 2)`,
  `"[".repeat(n / 3) + "](b".repeat(n / 3)`,
  `"[a](" + "(".repeat(n)`,
  `"[a](" + "<".repeat(n) + ")"`,
  `"<".repeat(n) + ">"`,
  `"<" + "http://".repeat(n / 7) + ">"`,
  `"-".repeat(n)`,
  `"- ".repeat(n / 2) + "x"`,
  `"-" + " ".repeat(n) + "-"`,
  `"|a".repeat(n / 4) + "\\n" + "|-".repeat(n / 4) + "\\n"`,
  `"|a".repeat(n / 4) + "\\n" + "|-".repeat(n / 4) + "\\n" + "|\\n".repeat(n / 2)`,
  `"a|a\\n-" + " ".repeat(n) + "|x"`,
  `("a|a\\n-" + " ".repeat(500) + "|x\\n").repeat(n / 500)`,
  `"a|a\\n" + "-".repeat(n) + "|x"`,
  `">".repeat(n)`,
  `"> ".repeat(n / 2) + "a"`,
  `"- a\\n" + "\\n".repeat(n) + "- b"`,
  `"- a\\n" + "  - b\\n".repeat(n / 6)`,
  `"- a\\n" + Array.from({ length: Math.sqrt(4 * n) }, (_, i) => " ".repeat(i) + "- b\\n").join("")`,
  `("- a\\n" + "\\n".repeat(50)).repeat(n / 50)`,
];

// Returns the steps of the page's code for the text, by the counters of Chromium's profiler, and the characters that
// built-in functions read.
async function stepsFor(page, text, n) {
  await page.call("Profiler.takePreciseCoverage");
  const seen = await page.evaluate(`import("/markdown.js").then(({ MarkdownView }) => {
    let seen = 0;
    const { indexOf, slice } = String.prototype;
    const { exec } = RegExp.prototype;
    String.prototype.indexOf = function (mark, from = 0) {
      const found = indexOf.call(this, mark, from);
      seen += (found < 0 ? this.length : found) - from;
      return found;
    };
    String.prototype.slice = function (...range) {
      const part = slice.apply(this, range);
      seen += part.length;
      return part;
    };
    RegExp.prototype.exec = function (text) {
      const from = this.global || this.sticky ? this.lastIndex : 0;
      const found = exec.call(this, text);
      const end = found ? found.index + found[0].length : this.sticky ? from + 1 : text.length;
      seen += (this.global || this.sticky ? end : text.length) - from;
      return found;
    };
    try {
      const n = ${n};
      new MarkdownView(document.createElement("div")).update(${text});
    } finally {
      Object.assign(String.prototype, { indexOf, slice });
      RegExp.prototype.exec = exec;
    }
    return seen;
  })`);
  const { result } = await page.call("Profiler.takePreciseCoverage");
  const counts = result
    .filter(({ url }) => /\/(inline|markdown|dom|formulas|tex\w*)\.js$/.test(url))
    .flatMap(({ functions }) => functions.flatMap(({ ranges }) => ranges.map(({ count }) => count)));
  return seen + counts.reduce((sum, count) => sum + count, 0);
}

// A text of twice the length takes twice the steps, and few steps per character.
async function strangeTextTakesLinearTime({ page }) {
  const LENGTH = 16000;
  const MOST = 400; // steps per character: about 40 for each of MAX_DEPTH levels
  await page.call("Profiler.enable");
  await page.call("Profiler.startPreciseCoverage", { callCount: true, detailed: true });
  const slow = [];
  for (const text of STRANGE) {
    const steps = await stepsFor(page, text, LENGTH);
    const twice = await stepsFor(page, text, 2 * LENGTH);
    if (twice > 2.5 * steps || steps > MOST * LENGTH) slow.push(text);
  }
  assert.deepEqual(slow, []);
}

export const markdownCases = [
  ["hostile text is harmless", hostileTextIsHarmless],
  ["a hostile stream is harmless", hostileStreamIsHarmless, ["--token-ms", "1"]],
  ["runs no script of others", runsNoScriptOfOthers],
  ["renders each part of Markdown", rendersEachPartOfMarkdown],
  ["strange text takes linear time", strangeTextTakesLinearTime],
];
