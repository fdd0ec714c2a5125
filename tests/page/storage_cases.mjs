// Conversations in the browser's storage: several tabs write to them, and some are damaged.

import assert from "node:assert/strict";
import { ask, count, done, idle, limitTokens, ready, textOf, words } from "./page_steps.mjs";

const shownId = `location.hash.slice("#/c/".length)`;
const stored = (id) => `JSON.parse(localStorage.getItem("tp-infer.conversation.${id}"))`;
const contents = (id, role) =>
  `Object.values(${stored(id)}.messages).filter(({ role }) => role === "${role}").map(({ content }) => content)`;
const running = (text) => `document.querySelector(".running .words")?.innerText.length > ${text}`;

// Two tabs with one conversation. The first one receives an answer that doesn't end.
async function twoTabs(page) {
  await ask(page, "endless: tell me a long story");
  await page.until(running(10), "the first words");
  const id = await page.evaluate(shownId);
  await page.until(
    `localStorage.getItem("tp-infer.conversation.${id}")?.includes("One rainy")`,
    "a part in the storage",
  );
  return [id, await page.secondTab()];
}

async function keepsWhatTwoTabsWrite({ page }) {
  const [id, other] = await twoTabs(page);
  await limitTokens(other, 30);
  await ask(other, "Tell me of a dog.");
  await other.until(`${count(".message")} === 4`, "the question and its answer, too");
  await other.until(done);
  await other.click("#conversations [aria-label^=Rename]");
  await other.evaluate(`document.querySelector("#conversations input").value = "Hens and dogs"`);
  await other.press("Enter");
  // The first tab stores its answer every second.
  const length = await page.evaluate(`${contents(id, "assistant")}[0].length`);
  await page.until(`${contents(id, "assistant")}[0].length > ${length}`, "more of the first answer");
  await page.press("Escape");
  await page.until(idle);
  for (const tab of [page, other]) {
    await tab.until(`${textOf("#conversations a")} === "Hens and dogs"`, "the title");
    await tab.until(`${count(".message")} === 4 && !document.querySelector(".running")`, "all messages");
    await tab.until(`/stopped/.test(${textOf(".message.assistant .stats")})`, "the end of the first answer");
  }
  const first = await page.evaluate(`document.querySelector(".message.assistant .words").innerText`);
  await other.reload();
  await other.until(`${count(".message")} === 4`, "all messages after a reload");
  assert.equal(await other.evaluate(`document.querySelector(".message.assistant .words").innerText`), first);
  assert.deepEqual(await page.evaluate(contents(id, "user")), ["endless: tell me a long story", "Tell me of a dog."]);
  assert.deepEqual(other.problems, []);
}

async function removesForAllTabs({ page }) {
  const [id, other] = await twoTabs(page);
  await other.click("#conversations [aria-label^=Delete]");
  await page.until(`${count(".message")} === 0 && ${idle}`, "a new conversation");
  await page.until(`${count("#conversations li")} === 0`, "no conversation");
  // Longer than the time between two saves of an answer.
  await new Promise((resolve) => setTimeout(resolve, 1500));
  assert.equal(await page.evaluate(`localStorage.getItem("tp-infer.conversation.${id}")`), null);
  await other.click("#toast button");
  await page.until(`${count("#conversations li")} === 1`, "the conversation again");
  await page.click("#conversations a");
  await page.until(`${count(".message")} === 2`, "its messages");
  assert.deepEqual(other.problems, []);
}

async function removesWhileAnswering({ page }) {
  await ask(page, "endless: tell me a long story");
  await page.until(running(10));
  await page.click("#conversations [aria-label^=Delete]");
  await page.until(`${count(".message")} === 0 && ${idle}`, "a new conversation");
  await new Promise((resolve) => setTimeout(resolve, 300));
  assert.equal(await page.evaluate(count("#conversations li")), 0, "the end of the answer does not store it again");
}

async function keepsSettingsOfTwoTabs({ page }) {
  await page.until(ready);
  const other = await page.secondTab();
  await other.until(ready);
  await limitTokens(page, 30);
  await other.click("#open-settings");
  await other.type("#setting-temperature", "0.5");
  assert.deepEqual(await page.evaluate(`JSON.parse(localStorage.getItem("tp-infer.settings"))`), {
    max_tokens: 30,
    temperature: 0.5,
  });
}

async function keepsTextOfTwoTabs({ page }) {
  await page.until(`!document.querySelector("#text").hidden`, "a field for a text");
  await page.type("#text-field", "endless: once upon a time");
  await page.press("Enter", 2);
  await page.until(`document.querySelector("#text-field").value.includes("rainy")`);
  const id = await page.evaluate(shownId);
  await page.until(`${stored(id)}.text.includes("rainy")`, "a part in the storage");
  const other = await page.secondTab();
  await other.until(`document.querySelector("#text-field").value.includes("rainy")`);
  await other.evaluate(`document.querySelector("#text-field").setSelectionRange(0, 0)`);
  await other.type("#text-field", "Title. ");
  const merged = `/^Title\\. endless: once upon a time *One rainy.*road, and the road/s.test(document.querySelector("#text-field").value)`;
  await page.until(merged, "the title before the growing text");
  await page.press("Escape");
  await page.until(`${textOf("#text-continue")} === "Continue"`);
  await other.until(merged, "the continuation after the title");
  const text = await page.evaluate(`document.querySelector("#text-field").value`);
  await other.until(`document.querySelector("#text-field").value === ${JSON.stringify(text)}`, "equal texts");
}

// [base, mine, theirs, merged]
const TEXTS = [
  ["a", "a", "ab", "ab"],
  ["a", "ab", "a", "ab"],
  ["a", "ab", "ac", "acb"],
  ["one two", "One two", "one two three", "One two three"],
  ["one two", "one two three", "One two", "One two three"],
  ["one two six", "one six", "one two 6", "one 6"],
  ["one", "", "one two", " two"],
  ["one two", "one 2", "one zwei", "one zwei2"],
  ["", "a", "b", "ba"],
  ["x", "x", "x", "x"],
];

async function mergesTexts({ page }) {
  const merged = await page.evaluate(`import("/merge.js").then(({ mergeTexts }) =>
    ${JSON.stringify(TEXTS)}.map(([base, mine, theirs]) => mergeTexts(base, mine, theirs)))`);
  assert.deepEqual(
    merged,
    TEXTS.map(([, , , text]) => text),
  );
}

const user = (parent, content = "Hello") => ({ parent, role: "user", content });
const answer = (parent, more = {}) => ({ parent, role: "assistant", content: "Hi", ...more });

// [damage, members of the stored conversation, messages that the page shows]
const DAMAGED = [
  ["a message is its own parent", { messages: { a: user("a") }, leaf: "a" }, 1],
  ["two messages are a circle", { messages: { a: user("b"), b: answer("a") }, leaf: "b" }, 2],
  [
    "a branch ends in a circle",
    { messages: { a: user("b"), b: answer("a"), c: user("b"), d: answer("c") }, leaf: "d" },
    3,
  ],
  ["a parent is missing", { messages: { b: answer("a"), c: user("b") }, leaf: "c" }, 2],
  ["a parent is a number", { messages: { a: user(1), b: answer("a") }, leaf: "b" }, 2],
  ["a parent is a member of every object", { messages: { a: user("constructor"), b: answer("a") }, leaf: "b" }, 2],
  ["the leaf is missing", { messages: { a: user(null), b: answer("a") }, leaf: "x" }, 2],
  ["the leaf is an object", { messages: { a: user(null), b: answer("a") }, leaf: {} }, 2],
  ["the leaf is not the end", { messages: { a: user(null), b: answer("a") }, leaf: "a" }, 2],
  ["no messages and a leaf", { messages: {}, leaf: "a" }, 0],
  ["a message is null", { messages: { a: user(null), b: null }, leaf: "b" }, 1],
  ["a message is a text", { messages: { a: user(null), b: "x" }, leaf: "a" }, 1],
  ["a content is missing", { messages: { a: { parent: null, role: "user" } }, leaf: "a" }, 1],
  ["a content is a list", { messages: { a: user(null, [{ type: "text", text: "x" }]), b: answer("a") }, leaf: "b" }, 2],
  ["a role is unknown", { messages: { a: user(null), b: { ...answer("a"), role: "tool" } }, leaf: "b" }, 1],
  ["a reasoning is a number", { messages: { a: user(null), b: answer("a", { reasoning: 1 }) }, leaf: "b" }, 2],
  ["statistics are a text", { messages: { a: user(null), b: answer("a", { stats: "x" }) }, leaf: "b" }, 2],
  [
    "statistics have wrong types",
    {
      messages: { a: user(null), b: answer("a", { stats: { usage: 1, timings: [], seconds: "x", firstSeconds: {} } }) },
      leaf: "b",
    },
    2,
  ],
  ["an error is null", { messages: { a: user(null), b: answer("a", { error: null }) }, leaf: "b" }, 2],
  ["an error is a number", { messages: { a: user(null), b: answer("a", { error: 5 }) }, leaf: "b" }, 2],
  ["an id differs from its name", { messages: { a: { ...user(null), id: "z" }, b: answer("a") }, leaf: "b" }, 2],
  ["the id is another conversation's", { id: "zz", messages: { a: user(null) }, leaf: "a" }, 1],
  ["the title is a number", { title: 7, messages: { a: user(null) }, leaf: "a" }, 1],
  ["the system prompt is null", { system: null, messages: { a: user(null) }, leaf: "a" }, 1],
  ["times are texts", { created: "x", updated: "y", messages: { a: user(null) }, leaf: "a" }, 1],
  ["the mode is unknown", { mode: 3, messages: { a: user(null) }, leaf: "a" }, 1],
  ["a text is missing", { mode: "text", messages: {}, text: undefined, before: 5, last: "x" }, 0],
];

// Values that are not conversations. The page leaves them unchanged.
const FOREIGN = ["", "{", "null", "7", "[]", `"x"`, "{}", `{"id": "f", "messages": 5}`, `{"id": "f", "messages": []}`];

async function survivesDamage({ page }) {
  await limitTokens(page, 5);
  const good = {
    id: "00",
    mode: "chat",
    title: "",
    system: "",
    created: 0,
    updated: 0,
    text: "",
    leaf: null,
    messages: {},
  };
  const id = (i) => `d${i}`;
  const all = DAMAGED.map(([, members], i) => [id(i), JSON.stringify({ ...good, id: id(i), ...members })]);
  const foreign = FOREIGN.map((text, i) => [`f${i}`, text]);
  await page.evaluate(`for (const [id, text] of ${JSON.stringify([...all, ...foreign])})
    localStorage.setItem("tp-infer.conversation." + id, text)`);
  await page.evaluate(`localStorage.setItem("tp-infer.system", "{}");
    localStorage.setItem("tp-infer.settings", '{"temperature": "x", "stop": 5, "max_tokens": 5}')`);
  for (const [i, [what, , messages]] of DAMAGED.entries()) {
    await page.evaluate(`location.hash = "#/c/${id(i)}"`);
    await page.reload();
    await page.until(ready);
    await page.until(`${count("#conversations li")} === ${DAMAGED.length}`, `the conversations, if ${what}`);
    assert.equal(await page.evaluate(count(".message")), messages, what);
    await page.click("#open-settings");
    await page.press("Escape");
    assert.deepEqual(page.problems, [], what);
  }
  // The conversation continues like any other.
  await page.evaluate(`location.hash = "#/c/${id(2)}"`);
  await page.until(`${count(".message")} === 3`);
  await ask(page, "Are you well?");
  await page.until(`${count(".message")} === 5`);
  await page.until(done);
  assert.ok(await page.evaluate(words));
}

export const storageCases = [
  ["keeps what two tabs write to a conversation", keepsWhatTwoTabsWrite, []],
  ["removes a conversation for all tabs", removesForAllTabs, []],
  ["removes a conversation whose answer is running", removesWhileAnswering, []],
  ["keeps the settings of two tabs", keepsSettingsOfTwoTabs],
  ["keeps a text that two tabs write", keepsTextOfTwoTabs, ["--no-chat"]],
  ["merges texts", mergesTexts, []],
  ["survives damaged conversations", survivesDamage],
];
