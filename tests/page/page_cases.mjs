// Tests of the page: [name, test, flags of the mock server]. Tests with flags, even none (`[]`), run only with the
// mock.

import assert from "node:assert/strict";
import { ANSWER, ask, count, done, idle, limitTokens, ready, textOf, words } from "./page_steps.mjs";
import { axeCases } from "./axe_cases.mjs";
import { formulaCases } from "./formula_cases.mjs";
import { markdownCases } from "./markdown_cases.mjs";
import { messageCases } from "./message_cases.mjs";
import { storageCases } from "./storage_cases.mjs";

async function streams({ page, shot }) {
  await page.until(ready);
  await shot("welcome");
  await limitTokens(page, 200);
  await ask(page, "Tell me a story about a white hen.");
  await page.until(`(${words} ?? "").length > 10`, "the first words");
  await page.until(done, "a whole answer");
  assert.match(
    await page.evaluate(`${ANSWER}.querySelector(".stats").textContent`),
    /\d+ tokens · [\d.,]+ tokens\/s · first after/,
  );
  assert.equal(await page.evaluate(`document.activeElement.id`), "composer-text");
  await page.until(`${textOf("#announcer")}.length > 10`, "the answer, for screen readers");
  await shot("chat");
  await page.scheme("dark");
  await shot("chat-dark");
}

async function stopsAnswer({ page }) {
  await ask(page, "endless: tell me a long story");
  await page.until(`(${words} ?? "").length > 10`);
  await page.press("Escape");
  await page.until(done, "an answer that has stopped");
  assert.match(await page.evaluate(`${ANSWER}.querySelector(".stats").textContent`), /stopped/);
  const text = await page.evaluate(words);
  await new Promise((resolve) => setTimeout(resolve, 200));
  assert.equal(await page.evaluate(words), text, "nothing is added after the stop");
}

async function editsAndAnswersAgain({ page, shot }) {
  await limitTokens(page, 40);
  await ask(page, "Tell me a story about a hen.");
  await page.until(done);
  await page.click(".message.user [aria-label^=Edit]");
  await page.evaluate(`document.querySelector("textarea.edit").value = "Tell me a story about a dog."`);
  await page.press("Enter");
  await page.until(`${textOf(".message.user .words")} === "Tell me a story about a dog."`);
  await page.until(done);
  assert.equal(await page.evaluate(textOf(".message.user .versions span")), "2 / 2");
  await page.click(".message.assistant [aria-label='Answer again']");
  await page.until(`${count(".message.assistant .versions")} === 1`, "two versions of the answer");
  await page.until(done);
  assert.equal(await page.evaluate(count(".message")), 2);
  await shot("versions");
  await page.click(".message.user [aria-label='Earlier version']");
  await page.until(`${textOf(".message.user .words")} === "Tell me a story about a hen."`);
  assert.ok(await page.evaluate(words), "the earlier version has its answer");
}

async function survivesReload({ page }) {
  await limitTokens(page, 30);
  await ask(page, "Tell me a story about a hen.");
  await page.until(done);
  const before = await page.evaluate(words);
  await page.reload();
  await page.until(`${words} === ${JSON.stringify(before)}`, "the same answer");
  assert.equal(await page.evaluate(count("#conversations li")), 1);
  // Rename, export, delete and undo.
  await page.click("#conversations [aria-label^=Rename]");
  await page.evaluate(`document.querySelector("#conversations input").value = "Hens"`);
  await page.press("Enter");
  await page.until(`${textOf("#conversations a")} === "Hens"`);
  await page.evaluate(`{
    const create = URL.createObjectURL;
    URL.createObjectURL = (blob) => (blob.text().then((text) => (window.exportedText = text)), create.call(URL, blob));
  }`);
  await page.click("#open-settings");
  await page.click("#settings-export");
  await page.until("window.exportedText");
  const exported = JSON.parse(await page.evaluate("window.exportedText"));
  assert.equal(exported.title, "Hens");
  assert.deepEqual(
    exported.messages.map(({ role }) => role),
    ["user", "assistant"],
  );
  await page.press("Escape");
  await page.click("#conversations [aria-label^=Delete]");
  await page.until(`${count("#conversations li")} === 0 && ${count(".message")} === 0`, "no conversation");
  await page.click("#toast button");
  await page.until(`${count("#conversations li")} === 1`, "the conversation again");
}

async function keepsPartOfAnswer({ page }) {
  await ask(page, "endless: tell me a long story");
  await page.until(`(${words} ?? "").length > 60`);
  await page.reload();
  await page.until(`(${words} ?? "").length > 20`, "what had been written before the reload");
  await page.until(idle);
  assert.match(await page.evaluate(`${ANSWER}.querySelector(".stats").textContent`), /before this answer was complete/);
}

async function tellsThatServerIsGone({ page, mock, shot }) {
  await limitTokens(page, 30);
  await page.until(ready);
  await (mock ? mock.stop() : page.offline(true));
  await ask(page, "Are you there?");
  await page.until(`${count(".message .error:not([hidden])")} === 1`, "an error");
  assert.match(await page.evaluate(textOf(".message .error:not([hidden])")), /does not answer.*Try again/s);
  await shot("gone");
}

async function triesAgain({ page }) {
  await limitTokens(page, 30);
  await page.until(ready);
  await page.offline(true);
  await ask(page, "Are you there?");
  await page.until(`${count(".message .error:not([hidden])")} === 1`, "an error");
  await page.offline(false);
  await page.click(".message .error button");
  await page.until(done);
  await page.until(`${words} !== ""`, "an answer");
  assert.equal(await page.evaluate(count(".message .error:not([hidden])")), 0);
  assert.equal(await page.evaluate(count(".message .versions")), 0, "the failure is no version");
}

async function isGoodWhenNarrow({ page, shot }) {
  await page.size(360, 740, 2);
  await page.reload();
  const fits = async (what) => {
    const width = await page.evaluate("Math.max(document.documentElement.scrollWidth, document.body.scrollWidth)");
    assert.ok(width <= 360, `${what} is ${width} pixels wide`);
  };
  await page.until(ready);
  await fits("the welcome");
  await limitTokens(page, 60);
  await ask(page, "markdown, please");
  await page.until(done);
  await fits("the chat");
  await shot("phone-chat");
  await page.click("#menu");
  await page.until(`document.activeElement.id === "new-conversation"`, "the focus in the list");
  await shot("phone-list");
  await page.press("Escape");
  await page.until(`document.activeElement.id === "menu"`, "the focus back on its button");
  await page.click("#open-settings");
  await fits("the settings");
  await shot("phone-settings");
  await page.press("Escape");
  await page.click("#tab-ranks");
  await page.until(`${count(".rank-list li")} > 0`);
  await fits("the ranks");
  await shot("phone-ranks");
}

async function showsRanks({ page, shot }) {
  await limitTokens(page, 60);
  await page.click("#tab-ranks");
  await page.until(`${count(".rank-list li")} > 0`, "ranks");
  await page.click("#burst-start");
  await page.until(`${count(".burst-grid li")} === 16`, "sixteen texts");
  await page.until(
    `[...document.querySelectorAll(".tail")].filter((node) => node.innerText.length > 40).length >= 8`,
    "eight that grow at once",
  );
  await page.until(`document.querySelector(".rank-list .part.compute").offsetWidth > 0`, "a bar");
  await page.until(`/In the last/.test(${textOf(".times .note")})`, "times of the last seconds");
  await shot("ranks");
  await page.until(`${count(".burst-grid .done")} === 16`, "sixteen whole texts");
  assert.match(await page.evaluate(textOf(".summary")), /tokens\/s together · .* 16 of 16 complete/);
  await page.evaluate(`document.querySelector("#ranks").scrollTop = 0`);
  await shot("ranks-top");
  await page.scheme("dark");
  await shot("ranks-dark");
  assert.match(
    await page.evaluate(`document.querySelector(".stack").getAttribute("aria-label")`),
    /Rank 0: computing \d+ %/,
  );
}

async function hasNamesForEverything({ page }) {
  await limitTokens(page, 20);
  await ask(page, "Hello");
  await page.until(done);
  const nameless = `[...document.querySelectorAll("button, a, input, select, textarea")].filter((node) =>
    node.checkVisibility() && !node.getAttribute("aria-label") && !node.textContent.trim() && !node.labels?.length).map((node) => node.outerHTML)`;
  assert.deepEqual(await page.evaluate(nameless), []);
  await page.click("#open-settings");
  assert.deepEqual(await page.evaluate(nameless), []);
  await page.press("Escape");
  await page.until(`document.activeElement.id === "open-settings"`, "the focus back on the button");
}

async function switchesTheme({ page, shot }) {
  await page.until(ready);
  const paper = `getComputedStyle(document.body).backgroundColor`;
  const light = await page.evaluate(paper);
  await page.click("#theme");
  const dark = await page.evaluate(paper);
  assert.notEqual(dark, light);
  await page.reload();
  assert.equal(await page.evaluate(paper), dark, "the choice is kept");
  await page.until(ready);
  await shot("welcome-dark");
}

async function showsProgramLines({ page, url, shot }) {
  await page.until(ready);
  await page.click("#open-connect");
  const text = await page.evaluate(textOf("#connect"));
  assert.ok(text.includes(`${new URL(url).origin}/v1`), "the server's address");
  await shot("connect");
}

async function rendersMarkdown({ page, shot }) {
  await ask(page, "markdown, please, and think");
  await page.until(done);
  for (const tag of ["h4", "ol li ul li", "blockquote", "table td", "pre code", "strong", "em", "a"]) {
    assert.ok(await page.evaluate(count(`.prose ${tag}`)), tag);
  }
  await page.evaluate(`document.querySelector("#scroller").scrollTop = 0`);
  await shot("markdown");
  await page.scheme("dark");
  await shot("markdown-dark");
}

async function foldsReasoning({ page }) {
  await ask(page, "think first");
  await page.until(done);
  assert.match(await page.evaluate(textOf(".assistant .reasoning-text")), /short story/);
  assert.equal(await page.evaluate(`document.querySelector(".assistant .reasoning").open`), false);
}

async function showsRefusalsAndBreaks({ page }) {
  await ask(page, "refuse this");
  await page.until(`${count(".message .error:not([hidden])")} === 1`);
  assert.match(await page.evaluate(textOf(".message .error:not([hidden])")), /`temperature`: expected/);
  await page.click("#new-conversation");
  await ask(page, "busy?");
  await page.until(`${count(".message .error:not([hidden])")} === 1`);
  assert.equal(await page.evaluate(textOf(".message .error:not([hidden]) p")), "The server is busy. Try again in 3 s.");
  await page.click("#new-conversation");
  await ask(page, "break off");
  await page.until(`${count(".message .error:not([hidden])")} === 1`);
  assert.match(await page.evaluate(textOf(".message .error:not([hidden])")), /ended before the answer was complete/);
  assert.ok((await page.evaluate(words)).length > 5, "what has arrived stays");
}

async function asksForKey({ page }) {
  await page.until(`document.querySelector("#key").open`, "the dialog");
  await page.type("#key-field", "wrong");
  await page.press("Enter");
  await page.until(
    `/does not accept/.test(${textOf("#key-reason")}) && document.querySelector("#key").open`,
    "the dialog again",
  );
  await page.type("#key-field", "secret");
  await page.press("Enter");
  await page.until(ready, "the model's name");
  await page.reload();
  await page.until(ready);
  assert.equal(await page.evaluate(`document.querySelector("#key").open`), false);
  assert.equal(await page.evaluate(`Object.values(localStorage).join().includes("secret")`), false);
}

async function choosesAmongModels({ page, url, shot }) {
  await page.until(ready);
  const menu = `document.querySelector("#model select")`;
  const labels = `[...${menu}.options].map((option) => option.textContent).join("; ")`;
  const choose = (name) =>
    page.evaluate(`${menu}.value = ${JSON.stringify(name)}; ${menu}.dispatchEvent(new Event("change"))`);
  assert.equal(
    await page.evaluate(labels),
    "small; large (stopped, starts when asked); old (stopped, starts when asked)",
  );
  assert.equal(await page.evaluate(`${menu}.value`), "small", "the one that is ready");
  await choose("large");
  await limitTokens(page, 20);
  await ask(page, "Tell me a story about a hen.");
  await page.until(done);
  const records = await (await fetch(new URL("/mock/records", url))).json();
  assert.deepEqual(
    records.map(({ model }) => model),
    ["large"],
  );
  await page.evaluate(`${menu}.focus()`);
  await page.until(`${labels} === "small; large; old (stopped, starts when asked)"`, "the new state");
  await shot("models");
  await page.click("#tab-ranks");
  await page.until(`${count(".rank-list li")} > 0`, "the ranks of the chosen model");
  await page.reload();
  await page.until(`${menu}?.value === "large"`, "the choice is kept");
  await page.click("#new-conversation");
  await choose("old");
  await page.until(`!document.querySelector("#text").hidden`, "a field for a text, because it has no chat template");
}

async function continuesText({ page, shot }) {
  await page.until(`!document.querySelector("#text").hidden`, "a field for a text");
  await page.type("#text-field", "Once upon a time");
  await page.press("Enter", 2);
  await page.until(`document.querySelector("#text-field").value.length > 60`);
  await page.until(`${textOf("#text-continue")} === "Continue"`);
  const first = await page.evaluate(`document.querySelector("#text-field").value`);
  assert.ok(first.startsWith("Once upon a time"));
  await shot("text");
  await page.reload();
  await page.until(`document.querySelector("#text-field").value === ${JSON.stringify(first)}`, "the same text");
  await page.click("#text-undo");
  assert.equal(await page.evaluate(`document.querySelector("#text-field").value`), "Once upon a time");
}

export const cases = [
  ["streams an answer", streams],
  ["stops an answer", stopsAnswer],
  ["edits a message and answers again", editsAndAnswersAgain],
  ["conversations survive a reload", survivesReload],
  ["keeps the part of an answer that was there before a reload", keepsPartOfAnswer],
  ...markdownCases,
  ...formulaCases,
  ...messageCases,
  ...storageCases,
  ["tells that the server is gone", tellsThatServerIsGone],
  ["tries again", triesAgain],
  ["is good on a phone", isGoodWhenNarrow],
  ["shows ranks and sixteen requests at once", showsRanks],
  ["has a name for every control", hasNamesForEverything],
  ["switches the theme", switchesTheme],
  ["shows lines for programs", showsProgramLines],
  ["renders Markdown", rendersMarkdown, ["--token-ms", "3"]],
  ["folds reasoning", foldsReasoning, []],
  ["shows refusals and lost connections", showsRefusalsAndBreaks, []],
  ["asks for the key", asksForKey, ["--api-key", "secret"]],
  ["chooses among models", choosesAmongModels, ["--models", "small,large,old"]],
  ...axeCases,
  ["continues a text without a chat template", continuesText, ["--no-chat"]],
];
