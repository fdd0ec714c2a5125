#!/usr/bin/env node
// Parts of the page that need no document.

import assert from "node:assert/strict";
import test from "node:test";
import { decode } from "../../runtime/serve/page/attachments.js";
import { append, contentOf, newConversation, prompt } from "../../runtime/serve/page/conversation.js";
import { explain } from "../../runtime/serve/page/errors.js";
import { readConversation } from "../../runtime/serve/page/stored.js";

const tooLong = (tokens, most) => ({ code: "context_length_exceeded", n_prompt_tokens: tokens, n_ctx: most });

// [status, the server's message, its details, what a person reads]
const ERRORS = [
  [400, "prompt has ...", tooLong(4524, 1024), "Too long for this model: 4,524 of 1,024 tokens."],
  [
    400,
    "prompt has ...",
    tooLong(1024, 1024),
    "Too long for this model: 1,024 of 1,024 tokens, which leaves none for an answer.",
  ],
  [400, "prompt has ...", { code: "context_length_exceeded" }, "Too long for this model."],
  [
    400,
    "`continue_final_message`: this model's chat template changes ...",
    { param: "continue_final_message" },
    "This model cannot continue an answer. Raise Max tokens in the settings, and try again.",
  ],
  [404, "there is no model x", { code: "model_not_found" }, "The server no longer offers this model. Reload the page."],
  [429, "cannot queue the request", { wait: "7" }, "The server is busy. Try again in 7 s."],
  [503, "the model is loading", { wait: "10" }, "The server is not ready: the model is loading. Try again in 10 s."],
  [400, "`temperature`: expected ...", { param: "temperature" }, "`temperature`: expected ..."],
];

test("errors are in the user's words", () => {
  for (const [status, message, details, expected] of ERRORS) {
    const found = explain({ status, message, details, kind: "refused" });
    assert.equal(found.message, expected);
    assert.equal(Boolean(found.isTooLong), details.code === "context_length_exceeded");
  }
});

test("only texts are attached", () => {
  const bytes = (text) => new TextEncoder().encode(text);
  assert.equal(decode(bytes("é\n")), "é\n");
  assert.equal(decode(new Uint8Array([0xef, 0xbb, 0xbf, 0x61])), "a");
  assert.equal(decode(new Uint8Array([0xff, 0xfe, 0x61, 0])), "a");
  assert.equal(decode(new Uint8Array([0xfe, 0xff, 0, 0x61])), "a");
  assert.equal(decode(new Uint8Array([0xff, 0xfe, 0x61])), null);
  assert.equal(decode(new Uint8Array([0xe9])), null);
  assert.equal(decode(bytes("a\0b")), null);
});

test("the model reads attachments between fences that they do not close", () => {
  const attachments = [
    { name: "a.txt", text: "one\n" },
    { name: "b.md", text: "````\ntwo\n````" },
  ];
  assert.equal(
    contentOf({ content: "Why?", attachments }),
    "a.txt:\n```\none\n```\n\nb.md:\n`````\n````\ntwo\n````\n`````\n\nWhy?",
  );
  assert.equal(contentOf({ content: "Why?" }), "Why?");
  const conversation = newConversation("chat");
  const question = append(conversation, null, "user", "", attachments.slice(0, 1));
  assert.deepEqual(prompt(conversation, question.id), [{ role: "user", content: "a.txt:\n```\none\n```" }]);
});

test("damaged attachments are left out", () => {
  const good = { name: "a", text: "b", tokens: 1 };
  const read = (attachments) => {
    const messages = { m: { role: "user", content: "x", attachments } };
    return readConversation("c", JSON.stringify({ messages, leaf: "m" })).messages.m.attachments;
  };
  assert.deepEqual(read([good, null, 5, { name: "a" }, { name: 1, text: "b" }]), [good]);
  assert.deepEqual(read([{ ...good, tokens: "x" }]), [{ name: "a", text: "b" }]);
  for (const value of [null, "x", {}, [], [[]]]) assert.equal(read(value), undefined);
});

// Two tabs have a module of their own each, and share the storage.
test("an answer that is continued grows in all tabs", async () => {
  const stored = new Map();
  const handlers = { one: [], other: [] };
  const changes = []; // [tab, key]
  let tab = "one";
  globalThis.localStorage = {
    getItem: (key) => stored.get(key) ?? null,
    setItem: (key, value) => {
      stored.set(key, String(value));
      changes.push([tab, key]);
    },
    removeItem: (key) => stored.delete(key),
    key: (place) => [...stored.keys()][place],
    get length() {
      return stored.size;
    },
  };
  globalThis.addEventListener = (name, handler) => handlers[tab].push(handler);
  const inTab = (name, work) => {
    tab = name;
    return work();
  };
  const deliver = () => {
    while (changes.length > 0) {
      const [from, key] = changes.shift();
      const to = from === "one" ? "other" : "one";
      inTab(to, () => handlers[to].forEach((handler) => handler({ key })));
    }
  };
  const one = await import("../../runtime/serve/page/store.js?one");
  const other = await import("../../runtime/serve/page/store.js?other");
  const events = { changed() {}, gone() {} };
  inTab("one", () => one.watch(() => true, events));
  inTab("other", () => other.watch(() => false, events));

  const answer = { id: "a1", parent: "u", role: "assistant", content: "One two", stats: { finish: "length" } };
  const question = { id: "u", parent: null, role: "user", content: "q" };
  const conversation = { id: "c1", mode: "chat", title: "", system: "", created: 1, updated: 1, text: "", leaf: "a1" };
  conversation.messages = { u: question, a1: answer };
  inTab("one", () => one.save(conversation));
  deliver();
  inTab("other", () => other.all()); // its sidebar lists the conversation
  answer.partial = true;
  answer.parts = 1;
  delete answer.stats;
  for (const words of [" three", " four", " five"]) {
    answer.content += words;
    inTab("one", () => one.save(conversation));
    deliver();
  }
  const saved = JSON.parse(stored.get("tp-infer.conversation.c1")).messages.a1.content;
  assert.equal(saved, "One two three four five");
  assert.equal(answer.content, saved);
});
