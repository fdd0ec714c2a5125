// Formulas in the browser: every input of the guide, at both widths.

import assert from "node:assert/strict";
import { listedFormulas } from "./listed_formulas.mjs";
import { count, ready } from "./page_steps.mjs";

const WIDE = `\\[ ${Array.from({ length: 60 }, (_, i) => `x_{${i}}`).join(" + ")} \\]`;
const PROSE = "It costs $5 and $6, `$x$` and \\(\\foo{a}\\).";

// As if the model had said it.
async function say(page, text) {
  const message = (id, parent, role, content) => ({ id, parent, role, content });
  const messages = { a: message("a", null, "user", "Formulas"), b: message("b", "a", "assistant", text) };
  const conversation = { id: "00", mode: "chat", created: 0, updated: 0, leaf: "b", messages };
  await page.evaluate(
    `localStorage.setItem("tp-infer.conversation.00", ${JSON.stringify(JSON.stringify(conversation))})`,
  );
  await page.evaluate(`location.hash = "#/c/00"`);
  await page.until(`${count(".prose")} > 0`);
}

async function showsFormulas(page) {
  const listed = listedFormulas();
  const text = [...listed.map((tex) => `$$${tex}$$`), WIDE, `so $a_1$ ${PROSE}`].join("\n\n");
  await page.until(ready);
  await say(page, text);
  assert.equal(await page.evaluate(count(".prose .formula > math[display=block]")), listed.length + 1);
  assert.equal(await page.evaluate(count(".prose p > math")), 1);
  const shown = await page.evaluate(`document.querySelector(".prose > :last-child").innerText`);
  assert.ok(shown.endsWith("It costs $5 and $6, $x$ and \\(\\foo{a}\\)."), shown);
  // Chromium has drawn each of them, and none is wider than the page.
  const flat = await page.evaluate(
    `[...document.querySelectorAll(".formula > math")].filter((node) => node.getBoundingClientRect().height < 5).length`,
  );
  assert.equal(flat, 0);
  const { height, plain } = await page.evaluate(`(() => {
    const height = (tex) => document.querySelectorAll(".formula > math")[tex].getBoundingClientRect().height;
    return { height: height(${listed.indexOf("\\frac{a+b}{c-d}")}), plain: height(0) };
  })()`);
  assert.ok(height > 1.4 * plain, "a fraction is higher than a line");
  const wide = await page.evaluate(`document.querySelector(".formula:has(math > mrow > :nth-child(100))").scrollWidth`);
  const room = await page.evaluate(`document.querySelector(".prose").clientWidth`);
  assert.ok(wide > room, "the long formula scrolls");
  const width = await page.evaluate("Math.max(document.documentElement.scrollWidth, document.body.scrollWidth)");
  assert.equal(width, await page.evaluate("innerWidth"), "the page does not");
}

async function showsFormulasOnDesktop({ page, shot }) {
  await showsFormulas(page);
  await shot("formulas");
}

async function showsFormulasOnPhone({ page, shot }) {
  await page.size(360, 740, 2);
  await showsFormulas(page);
  await shot("phone-formulas");
}

export const formulaCases = [
  ["shows formulas", showsFormulasOnDesktop],
  ["shows formulas on a phone", showsFormulasOnPhone],
];
