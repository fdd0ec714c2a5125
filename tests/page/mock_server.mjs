#!/usr/bin/env node
// A stand-in for `tp-infer serve`: the page, and the API with answers that the prompt asks for by a word. For tests of the page
// and of bench/serve without a model.
//
//   node tests/page/mock_server.mjs [--port N] [--token-ms 10] [--first-ms 40] [--slots 64] [--api-key KEY] [--no-chat]
//                                 [--models a,b]
//
// Prints the address. Words in the last message: "hostile" answers with Markdown that would like to run; "think" has
// reasoning; "markdown" shows what the page can render; "break" loses the connection in the middle; "refuse" is status 400, and
// "busy" is 429; "endless" goes on until it is stopped. --models: a gateway with several models, of which the first is ready;
// another one starts with its first completion, and the last one has no chat template.

import { readFileSync, readdirSync } from "node:fs";
import { createServer } from "node:http";
import { extname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { HOSTILE, MARKDOWN, STORY } from "./mock_texts.mjs";

const { values: options } = parseArgs({
  options: {
    port: { type: "string", default: "0" },
    "token-ms": { type: "string", default: "10" },
    "first-ms": { type: "string", default: "40" },
    slots: { type: "string", default: "64" },
    "api-key": { type: "string", default: "" },
    "no-chat": { type: "boolean", default: false },
    models: { type: "string", default: "" },
  },
});
const TOKEN_MS = Number(options["token-ms"]);
const FIRST_MS = Number(options["first-ms"]);
const SLOTS = Number(options.slots);
const MODEL = "demo";
const CONTEXT = 2048; // tokens
const MODELS = options.models.split(",").filter((name) => name !== "");
const states = new Map(MODELS.map((name, i) => [name, i === 0 ? "ready" : "stopped"]));

// The server sends this policy with the page. Trusted types make each use of innerHTML an error.
const POLICY =
  "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
  "require-trusted-types-for 'script'; trusted-types 'none'";

const PAGE = fileURLToPath(new URL("../../runtime/serve/page/", import.meta.url));
const TYPES = { ".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml" };
const files = new Map(readdirSync(PAGE).map((name) => [`/${name}`, name]));
files.set("/", "index.html");

const begun = Date.now();
const uptime = () => (Date.now() - begun) / 1000;
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const counters = { running: 0, waiting: 0, finished: 0, prompt: 0, generated: 0, queries: 0, hits: 0, used: 0 };
const records = []; // one per completion: its arrival and the times of its chunks, in ms
const queue = [];

async function takeSlot() {
  if (counters.running < SLOTS) {
    counters.running += 1;
    return;
  }
  counters.waiting += 1;
  await new Promise((resolve) => queue.push(resolve));
  counters.waiting -= 1;
}

function releaseSlot() {
  counters.finished += 1;
  const next = queue.shift();
  if (next) next();
  else counters.running -= 1;
}

function json(response, status, body, headers = {}) {
  response.writeHead(status, { "Content-Type": "application/json", ...headers });
  response.end(JSON.stringify(body));
}

const refuse = (response, status, message, type = "invalid_request_error", more = {}) =>
  json(response, status, { error: { message, type, param: null, code: null, ...more } });

const words = (text) => text.match(/\s*\S+|\s+$/g) ?? [];

function status() {
  const busy = counters.generated * 0.004;
  const rank = (i) => ({
    rank: i,
    host: `node${1 + Math.floor(i / 2)}`,
    compute_seconds: busy * (1 - 0.06 * (i % 3)),
    collective_seconds: busy * 0.17,
    waiting_seconds: busy * (0.03 + 0.06 * (i % 3)),
    weight_bytes: 2.1e6 + i * 4096,
    cache_bytes: 1.6e6,
  });
  return {
    model: MODEL,
    version: "0.2.0-dev",
    uptime_seconds: uptime(),
    ready: true,
    draining: false,
    requests: { running: counters.running, waiting: counters.waiting, finished: counters.finished },
    tokens: {
      prompt_total: counters.prompt,
      generated_total: counters.generated,
      prompt_per_second: counters.running * 3.5,
      generated_per_second: counters.running * (1000 / TOKEN_MS),
    },
    cache: {
      used_tokens: counters.used,
      capacity_tokens: 8192,
      prefix_queries: counters.queries,
      prefix_hits: counters.hits,
    },
    step: { tokens: counters.running, seconds: TOKEN_MS / 1000 },
    ranks: [0, 1, 2, 3].map(rank),
  };
}

// The answer: {text, reasoning}, as lists of tokens. `begun`: the words of an answer that is continued.
function answerTo(prompt, limit, ignoresEnd, begun = 0) {
  if (/hostile/.test(prompt)) return { text: words(HOSTILE) };
  if (/markdown/.test(prompt)) return { text: words(MARKDOWN) };
  const story = words(STORY);
  const length = /endless/.test(prompt) || ignoresEnd ? limit : story.length;
  const reasoning = /think/.test(prompt)
    ? words("The question is about a hen. A short story will do.").slice(0, limit)
    : [];
  const most = Math.min(limit - reasoning.length, length - begun);
  const text = Array.from({ length: most }, (_, i) => story[(i + begun) % story.length]);
  return { text, reasoning };
}

function chunk(isChat, id, choice, extra = {}) {
  const { index, content, reasoning, finish = null } = choice ?? {};
  const delta = reasoning !== undefined ? { reasoning_content: reasoning } : content !== undefined ? { content } : {};
  const shown = { index, ...(isChat ? { delta } : { text: content ?? "" }), logprobs: null, finish_reason: finish };
  const object = isChat ? "chat.completion.chunk" : "text_completion";
  return { id, object, created: Math.floor(Date.now() / 1000), model: MODEL, choices: choice ? [shown] : [], ...extra };
}

function promptsOf(body, isChat) {
  if (isChat) return [body.messages.map(({ content }) => content).join("\n")];
  const list = Array.isArray(body.prompt) && typeof body.prompt[0] !== "number" ? body.prompt : [body.prompt];
  return list.map((prompt) => (Array.isArray(prompt) ? prompt.map((id) => `w${id}`).join(" ") : prompt));
}

async function complete(request, response, body, isChat) {
  const received = performance.now();
  if (MODELS.length > 0) states.set(body.model, "ready");
  const record = {
    model: body.model,
    id: request.headers["x-request-id"] ?? null,
    prompt: body.prompt ?? body.messages,
    continues: body.continue_final_message === true,
    received,
    chunks: [],
  };
  records.push(record);
  const prompts = promptsOf(body, isChat);
  const last = isChat ? body.messages.at(-1).content : prompts[0];
  if (/refuse/.test(last))
    return refuse(response, 400, "`temperature`: expected a number of at least 0, found -1; leave it out");
  if (/busy/.test(last)) {
    const error = {
      message: "cannot queue the request: 1024 wait already",
      type: "rate_limit_error",
      code: "overloaded",
    };
    return json(response, 429, { error }, { "Retry-After": "3" });
  }
  const sequences = prompts.flatMap((prompt) => Array.from({ length: body.n ?? 1 }, () => prompt));
  const limit = body.max_tokens ?? body.max_completion_tokens ?? (/endless/.test(last) ? 1e6 : isChat ? 400 : 60);
  const promptTokens = prompts.reduce((sum, prompt) => sum + words(prompt).length, 0);
  if (promptTokens >= CONTEXT) {
    const why = `prompt has ${promptTokens} tokens but a sequence has at most ${CONTEXT}; shorten the prompt`;
    const more = { code: "context_length_exceeded", n_prompt_tokens: promptTokens, n_ctx: CONTEXT };
    return refuse(response, 400, why, undefined, more);
  }
  const begun = body.continue_final_message ? words(last).length : 0;
  counters.prompt += promptTokens;
  counters.queries += promptTokens;
  counters.hits += Math.floor(promptTokens / 2);
  const id = `${isChat ? "chatcmpl" : "cmpl"}-${records.length}`;
  let open = true;
  response.on("close", () => {
    open = false;
  });
  const send = (data, isToken) => {
    if (!open || !body.stream) return;
    if (isToken) record.chunks.push(performance.now());
    response.write(`data: ${typeof data === "string" ? data : JSON.stringify(data)}\n\n`);
  };
  if (body.stream) {
    response.writeHead(200, { "Content-Type": "text/event-stream", "Cache-Control": "no-cache" });
    response.write(": ping\n\n");
  }
  let generated = 0;
  const texts = await Promise.all(
    sequences.map(async (prompt, index) => {
      await takeSlot();
      // Answers that are requested together have different lengths.
      const length = body.n > 1 ? limit + ((index * 37) % 23) : limit;
      const { text, reasoning = [] } = answerTo(isChat ? last : prompt, length, body.ignore_eos, begun);
      await sleep(FIRST_MS);
      const tokens = [...reasoning.map((content) => ({ reasoning: content })), ...text.map((content) => ({ content }))];
      let mine = 0;
      for (const token of tokens) {
        if (!open || (/break/.test(last) && mine === 8)) break;
        send(chunk(isChat, id, { index, ...token }), true);
        mine += 1;
        generated += 1;
        counters.generated += 1;
        counters.used += 1;
        await sleep(TOKEN_MS);
      }
      counters.used -= mine;
      releaseSlot();
      if (/break/.test(last)) response.destroy();
      send(chunk(isChat, id, { index, finish: mine < limit ? "stop" : "length" }));
      return text.slice(0, mine).join("");
    }),
  );
  const usage = {
    prompt_tokens: promptTokens,
    completion_tokens: generated,
    total_tokens: promptTokens + generated,
    prompt_tokens_details: { cached_tokens: Math.floor(promptTokens / 2) },
  };
  const ms = generated * 4;
  const timings = { compute_ms: ms * 0.8, collectives_ms: ms * 0.15, waiting_ms: ms * 0.05 };
  if (!open) return;
  if (!body.stream) {
    const choices = texts.map((text, index) =>
      isChat
        ? { index, message: { role: "assistant", content: text }, finish_reason: "length" }
        : { index, text, finish_reason: "length" },
    );
    return json(response, 200, {
      id,
      object: isChat ? "chat.completion" : "text_completion",
      model: MODEL,
      choices,
      usage,
    });
  }
  if (body.stream_options?.include_usage) send(chunk(isChat, id, null, { usage, timings }));
  send("[DONE]");
  response.end();
}

function model() {
  return {
    id: MODEL,
    object: "model",
    owned_by: "tp-infer",
    max_model_len: CONTEXT,
    capabilities: { chat: !options["no-chat"] },
  };
}

const models = () =>
  MODELS.length === 0
    ? [model()]
    : MODELS.map((id, i) => ({
        ...model(),
        id,
        state: states.get(id),
        capabilities: { chat: i + 1 < MODELS.length },
      }));

function serveFile(response, name) {
  response.writeHead(200, {
    "Content-Type": `${TYPES[extname(name)]}; charset=utf-8`,
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
  });
  response.end(readFileSync(join(PAGE, name)));
}

async function bodyOf(request) {
  let text = "";
  for await (const part of request) text += part;
  return JSON.parse(text || "{}");
}

createServer(async (request, response) => {
  const { pathname, searchParams } = new URL(request.url, "http://mock");
  if (files.has(pathname)) return serveFile(response, files.get(pathname));
  if (pathname === "/health") return json(response, 200, { status: "ok" });
  if (pathname === "/mock/records") return json(response, 200, records);
  if (options["api-key"] && request.headers.authorization !== `Bearer ${options["api-key"]}`) {
    return refuse(response, 401, "Expected an API key: Authorization: Bearer KEY", "authentication_error");
  }
  const body = request.method === "POST" ? await bodyOf(request) : null;
  switch (pathname) {
    case "/v1/models":
      return json(response, 200, { object: "list", data: models() });
    case "/v1/status": {
      const asked = searchParams.get("model");
      if (asked && states.get(asked) !== "ready")
        return refuse(response, 503, `no job of the model \`${asked}\` is ready: stopped`, "unavailable_error");
      return json(response, 200, { ...status(), model: asked ?? MODEL });
    }
    case "/v1/chat/completions":
      if (options["no-chat"])
        return refuse(response, 400, "This model has no chat template; start the server with --template FILE");
      return complete(request, response, body, true);
    case "/v1/completions":
      return complete(request, response, body, false);
    case "/tokenize": {
      const tokens = words(body.content ?? body.prompt ?? "").map((_, i) => i + 3);
      return json(response, 200, { tokens, count: tokens.length, max_model_len: CONTEXT });
    }
    default:
      return refuse(response, 404, `There is no ${request.method} ${pathname}`, "not_found");
  }
}).listen(Number(options.port), "127.0.0.1", function () {
  console.log(`http://127.0.0.1:${this.address().port}`);
});
