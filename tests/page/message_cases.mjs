// Attachments, answers that are continued, and errors that a person understands.

import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { STORY } from "./mock_texts.mjs";
import { ANSWER, ask, count, done, limitTokens, ready, textOf, words } from "./page_steps.mjs";

const ERROR = ".message .error:not([hidden])";
const FILE = "#composer .files .file";
const labels = `[...document.querySelectorAll("${FILE} summary")].map(({ textContent }) => textContent).join("; ")`;
const toastText = `document.querySelector("#toast:not([hidden])")?.textContent ?? ""`;

const records = async (url) => (await fetch(new URL("/mock/records", url))).json();

// Gives `files`, of {name, text} or {name, bytes}, to the element as if a person had dropped or pasted them.
function give(page, selector, kind, files, text = "") {
  return page.evaluate(`{
    const data = new DataTransfer();
    for (const { name, text, bytes } of ${JSON.stringify(files)}) data.items.add(new File([bytes ? new Uint8Array(bytes) : text], name));
    if (${JSON.stringify(text)}) data.setData("text/plain", ${JSON.stringify(text)});
    const options = { bubbles: true, cancelable: true, dataTransfer: data, clipboardData: data };
    const event = ${kind === "paste" ? "new ClipboardEvent" : "new DragEvent"}("${kind}", options);
    document.querySelector(${JSON.stringify(selector)}).dispatchEvent(event);
    window.wasHandled = event.defaultPrevented;
  }`);
}

async function attachesFiles({ page, url, shot }) {
  await page.until(ready);
  await limitTokens(page, 12);
  const folder = mkdtempSync(join(tmpdir(), "tp-page-"));
  const file = join(folder, "hens.txt");
  writeFileSync(file, "one two three\n");
  const { root } = await page.call("DOM.getDocument");
  const { nodeId } = await page.call("DOM.querySelector", { nodeId: root.nodeId, selector: "#attach-files" });
  await page.call("DOM.setFileInputFiles", { nodeId, files: [file] });
  await page.until(`${labels} === "hens.txt · 4 tokens"`, "the file and its tokens"); // the mock counts words, and the end
  rmSync(folder, { recursive: true });
  await give(page, "#log", "drop", [{ name: "code.md", text: "```js\nx\n```" }]);
  await page.until(`${labels} === "hens.txt · 4 tokens; code.md · 3 tokens"`);
  const pasted = "many words ".repeat(300);
  await give(page, "#composer-text", "paste", [], pasted);
  await page.until(`${count(FILE)} === 3 && /Pasted text 1 · 601 tokens/.test(${labels})`, "the pasted text");
  assert.equal(await page.evaluate(`document.querySelector("#composer-text").value`), "");
  assert.equal(await page.evaluate(`document.querySelector("${FILE}").open`), false, "folded");
  await shot("attachments");
  await page.click("[aria-label='Remove Pasted text 1']");
  await ask(page, "What is it?");
  await page.until(done);
  assert.equal(await page.evaluate(count(FILE)), 0);
  assert.equal(await page.evaluate(count(".message.user .file")), 2);
  const content = "hens.txt:\n```\none two three\n```\n\ncode.md:\n````\n```js\nx\n```\n````\n\nWhat is it?";
  assert.deepEqual((await records(url)).at(-1).prompt, [{ role: "user", content }]);
  await page.reload();
  await page.until(`/hens.txt · 4 tokens/.test(${textOf(".message.user .file")})`, "the file after a reload");
  // An edited message may lose a file.
  await page.click(".message.user [aria-label^=Edit]");
  await page.click(".message.user [aria-label='Remove code.md']");
  await page.click(".message.user .primary");
  await page.until(`${count(".message.user .versions")} === 1`);
  await page.until(done);
  assert.match((await records(url)).at(-1).prompt[0].content, /^hens.txt:\n```\none two three\n```\n\nWhat is it\?$/);
}

async function sendsFileWithoutWords({ page, url }) {
  await page.until(ready);
  await limitTokens(page, 12);
  await give(page, "#log", "drop", [{ name: "a.csv", text: "1,2" }]);
  await page.until(`${count(FILE)} === 1`);
  await page.click("#send");
  await page.until(done);
  assert.equal((await records(url)).at(-1).prompt[0].content, "a.csv:\n```\n1,2\n```");
  assert.equal(await page.evaluate(textOf("#conversations a")), "a.csv");
}

async function attachesFilesOnPhone({ page, shot }) {
  await page.size(360, 740, 2);
  await page.until(ready);
  await limitTokens(page, 5);
  const fits = async (what) => {
    const width = await page.evaluate("Math.max(document.documentElement.scrollWidth, document.body.scrollWidth)");
    assert.equal(width, 360, what);
  };
  await give(page, "#log", "drop", [{ name: `${"long".repeat(20)}.txt`, text: "x".repeat(500) }]);
  await page.until(`/ 1 token/.test(${labels})`);
  await page.evaluate(`document.querySelector("${FILE}").open = true`);
  await fits("the file below the chat");
  await page.click("#send");
  await page.until(`${done} && ${count(".go-on")} === 1`);
  await page.evaluate(`document.querySelector(".message .file").open = true`);
  await fits("the file in its message");
  await shot("phone-file");
  await page.click(".message.user [aria-label^=Edit]");
  await fits("the file in an edited message");
}

async function refusesOtherFiles({ page }) {
  await page.until(ready);
  const files = [
    { name: "a.png", bytes: [0x89, 0x50, 0x4e, 0x47, 0, 1] },
    { name: "b.txt", bytes: [0x61, 0xe9] },
    { name: "c.txt", text: "" },
    { name: "d.txt", text: "x".repeat(1024 * 1024 + 1) },
    { name: "e.txt", bytes: [0xff, 0xfe, 0x68, 0, 0x69, 0] },
  ];
  await give(page, "#log", "drop", files);
  await page.until(
    `${toastText} === "a.png is not a text file; b.txt is not a text file; c.txt is empty; d.txt is larger than 1 MiB."`,
    "the reasons",
  );
  await page.until(`${labels} === "e.txt · 1 token"`, "the file in UTF-16");
  await give(page, "#composer-text", "paste", [], "x".repeat(2048));
  assert.equal(await page.evaluate("window.wasHandled"), false, "the browser pastes short texts");
  await give(page, "#sidebar", "drop", [{ name: "f.txt", text: "x" }]);
  assert.equal(await page.evaluate("window.wasHandled"), true, "a file beside the chat does not replace the page");
  assert.equal(await page.evaluate(count(FILE)), 1);
}

async function continuesAnswer({ page, url, shot }) {
  await limitTokens(page, 12);
  await ask(page, "Tell me a story.");
  await page.until(done);
  const story = STORY.match(/\s*\S+/g);
  assert.equal(await page.evaluate(words), story.slice(0, 12).join(""));
  await shot("continue");
  await page.click(".message.assistant .go-on");
  await page.until(`${done} && (${words} ?? "").length > ${story.slice(0, 20).join("").length}`, "more words");
  assert.equal(await page.evaluate(words), story.slice(0, 24).join(""));
  assert.match(
    await page.evaluate(`${ANSWER}.querySelector(".stats").textContent`),
    /^24 tokens .*token limit reached/,
  );
  assert.equal((await records(url)).at(-1).continues, true);
  // The server removes spaces at the end, so that the continuation begins with its own.
  const [id] = await page.evaluate(
    `Object.keys(localStorage).filter((name) => name.startsWith("tp-infer.conversation."))`,
  );
  await page.evaluate(
    `localStorage.setItem("${id}", localStorage.getItem("${id}").replace(/(Bella[^"]*)"/, '$1  "'))`,
  );
  await page.reload();
  await page.click(".go-on");
  await page.until(`${done} && /^36 tokens/.test(${ANSWER}.querySelector(".stats").textContent)`, "12 more tokens");
  assert.equal(await page.evaluate(words), story.slice(0, 36).join(""));
  assert.equal((await records(url)).at(-1).prompt.at(-1).content, story.slice(0, 24).join(""));
  // Only the last answer, and only if it is not complete.
  await ask(page, "And then?");
  await page.until(done);
  assert.equal(await page.evaluate(count(".go-on")), 1);
  await limitTokens(page, 400);
  await page.click(".go-on");
  await page.until(`${done} && ${count(".go-on")} === 0`, "a complete answer");
  assert.equal(await page.evaluate(words), STORY.trim());
}

async function saysThatMessageIsTooLong({ page, shot }) {
  await page.until(ready);
  await limitTokens(page, 12);
  await give(page, "#log", "drop", [{ name: "long.txt", text: "word ".repeat(4520) }]);
  await page.until(`/4,521 tokens/.test(${labels})`);
  await ask(page, "Sum up");
  await page.until(`${count(ERROR)} === 1`);
  assert.match(
    await page.evaluate(`document.querySelector("${ERROR} p").textContent`),
    /^Too long for this model: 4,5\d\d of 2,048 tokens\. Edit the message or begin a new conversation\.$/,
  );
  const buttons = `[...document.querySelectorAll("${ERROR} button")].map(({ textContent }) => textContent).join()`;
  assert.equal(await page.evaluate(buttons), "Edit the message,New conversation");
  await shot("too-long");
  await page.click(`${ERROR} button`);
  await page.click(".message.user [aria-label='Remove long.txt']");
  await page.click(".message.user .primary");
  await page.until(`${done} && ${words}`, "an answer without the file");
  await ask(page, "word ".repeat(2100));
  await page.until(`${count(ERROR)} === 1`);
  await page.click(`${ERROR} button:nth-of-type(2)`);
  await page.until(`${count(".message")} === 0 && location.hash === "#/"`, "a new conversation");
}

export const messageCases = [
  ["attaches files and long pastes", attachesFiles, []],
  ["sends a file without words", sendsFileWithoutWords, []],
  ["attaches files on a phone", attachesFilesOnPhone, []],
  ["refuses files that are no text", refusesOtherFiles, []],
  ["continues an answer at the token limit", continuesAnswer, ["--token-ms", "2"]],
  ["says that a message is too long", saysThatMessageIsTooLong, []],
];
