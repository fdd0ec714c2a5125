// The server's API: requests, streams, and error messages.

const KEY = "tp-infer.key";

// `kind` is "gone" (no answer), "broken" (the stream ended too early), "refused" (the server says why) or "key". `details` are the
// members of the server's error, and `wait`, the seconds after which to try again.
export class ApiError extends Error {
  constructor(kind, message, status = 0, details = {}) {
    super(message);
    this.kind = kind;
    this.status = status;
    this.details = details;
  }
}

let askForKey = async () => false;

// `ask` shows a dialog and returns whether the user entered a key to try.
export function onMissingKey(ask) {
  askForKey = ask;
}

export function key() {
  try {
    return sessionStorage.getItem(KEY) ?? "";
  } catch {
    return "";
  }
}

export function setKey(value) {
  try {
    if (value) sessionStorage.setItem(KEY, value);
    else sessionStorage.removeItem(KEY);
  } catch {
    // Without storage, the key is not kept.
  }
}

// Returns a URL relative to the page, because a proxy may serve the page under a path.
export const origin = () => new URL(".", document.baseURI).href.replace(/\/$/, "");

async function fetchOnce(path, { body, signal }) {
  const headers = {};
  if (body) headers["Content-Type"] = "application/json";
  if (key()) headers.Authorization = `Bearer ${key()}`;
  try {
    return await fetch(`${origin()}/${path}`, {
      method: body ? "POST" : "GET",
      headers,
      body: body && JSON.stringify(body),
      signal,
      cache: "no-store",
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError("gone", "The server does not answer. It may have ended, or the network is down.");
  }
}

async function refusal(response) {
  let message = `The server answered ${response.status} ${response.statusText}`.trim() + ".";
  let details = {};
  try {
    const { error } = await response.json();
    details = typeof error === "object" ? { ...error } : {};
    message = typeof error === "string" ? error : (error?.message ?? message);
  } catch {
    // The response is not JSON, so the message contains only the status.
  }
  details.wait = response.headers.get("Retry-After");
  return new ApiError(response.status === 401 ? "key" : "refused", message, response.status, details);
}

// Returns a response with a status below 400, or throws an ApiError. If the server requires a key, asks the user for it
// unless `quiet`.
export async function send(path, options = {}) {
  for (;;) {
    const response = await fetchOnce(path, options);
    if (response.ok) return response;
    const wantsKey = response.status === 401 && !options.quiet;
    if (!wantsKey || !(await askForKey(key() !== ""))) throw await refusal(response);
  }
}

export async function getJson(path, options) {
  const response = await send(path, options);
  return response.json();
}

// The tokens of a text, without those that begin or end a prompt.
export async function countTokens(text, model) {
  const body = { model, content: text };
  const { count } = await getJson("tokenize", { body, quiet: true });
  return count;
}

// The values of the `data:` lines of a body, one per event. Comments, which keep proxies from closing the connection, are
// skipped.
async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let data = [];
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const lines = (rest + value).split("\n");
      rest = lines.pop();
      for (const raw of lines) {
        const line = raw.endsWith("\r") ? raw.slice(0, -1) : raw;
        if (line.startsWith("data:")) {
          data.push(line.slice(line[5] === " " ? 6 : 5));
        } else if (line === "" && data.length > 0) {
          yield data.join("\n");
          data = [];
        }
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

// Returns the chunks of a streamed completion. Throws an ApiError if the server refuses or the stream ends too early,
// and AbortError when `signal` stops it.
export async function* stream(path, body, signal) {
  const request = { ...body, stream: true, stream_options: { include_usage: true }, return_progress: true };
  const response = await send(path, { body: request, signal });
  try {
    for await (const data of events(response.body)) {
      if (data === "[DONE]") return;
      const chunk = JSON.parse(data);
      if (chunk.error) throw new ApiError("refused", chunk.error.message ?? String(chunk.error), 0, chunk.error);
      yield chunk;
    }
  } catch (error) {
    if (signal?.aborted || error instanceof ApiError) throw error;
    // Reading from a lost connection throws a TypeError.
  }
  throw new ApiError("broken", "The connection ended before the answer was complete.");
}
