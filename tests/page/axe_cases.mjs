// The page's views, checked by axe-core for accessibility. Without this package there are no such tests.

import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { ANSWER, ask, count, done, limitTokens, ready } from "./page_steps.mjs";

const SCRIPT = join(process.env.TP_NODE_MODULES ?? "", "axe-core", "axe.min.js");

// The levels of headings are the model's.
const OPTIONS = `{ rules: { "heading-order": { enabled: false } } }`;

async function findFaults(page) {
  await page.until("document.getAnimations().length === 0");
  const found = await page.evaluate(`axe.run(${OPTIONS}).then(({ violations }) =>
    violations.map(({ id, nodes }) => id + ": " + nodes.map(({ html }) => html.slice(0, 200)).join(" | ")))`);
  assert.deepEqual(found, []);
}

async function checkViews(page) {
  await page.until(ready);
  await page.evaluate(readFileSync(SCRIPT, "utf8"));
  await findFaults(page);
  await limitTokens(page, 5);
  await page.evaluate(`{
    const data = new DataTransfer();
    data.items.add(new File(["one two ".repeat(100)], "a.txt"));
    document.querySelector("#log").dispatchEvent(new DragEvent("drop", { bubbles: true, dataTransfer: data }));
  }`);
  await page.until(`${count("#composer .file")} === 1`);
  await findFaults(page);
  await ask(page, "markdown, please, and think");
  await page.until(done);
  await page.evaluate(`document.querySelectorAll("details").forEach((node) => (node.open = true))`);
  await findFaults(page);
  await ask(page, "A story");
  await page.until(`${done} && ${count(".go-on")} === 1`);
  await ask(page, "word ".repeat(2100));
  await page.until(`${ANSWER}.querySelector(".error:not([hidden])")`);
  await findFaults(page);
  await page.click(`.error:not([hidden]) button`);
  await findFaults(page);
  await page.click("#open-settings");
  await findFaults(page);
  await page.press("Escape");
  await page.evaluate(`location.hash = "#/ranks"`);
  await page.until(`${count(".rank-list li")} > 0`);
  await findFaults(page);
}

async function isAccessible({ page }) {
  await checkViews(page);
  await page.scheme("dark");
  await findFaults(page);
}

async function isAccessibleOnPhone({ page }) {
  await page.size(360, 740, 2);
  await checkViews(page);
}

if (!existsSync(SCRIPT)) console.log("- axe-core is not in TP_NODE_MODULES: accessibility is not checked");

export const axeCases = existsSync(SCRIPT)
  ? [
      ["is accessible, says axe-core", isAccessible, ["--token-ms", "1"]],
      ["is accessible on a phone, says axe-core", isAccessibleOnPhone, ["--token-ms", "1"]],
    ]
  : [];
