// A streaming answer: it fills a message and reports every change.

import { ApiError, stream } from "./api.js";
import { explain } from "./errors.js";
import { seconds } from "./format.js";

const SAVE_EVERY = 1000; // ms

const now = () => performance.now() / 1000;

// Returns what a chunk's choice adds: {content, reasoning, isToken}. A chunk counts as a token even if it has no text,
// because it may hold a part of a character. The chunk with the role and the last chunk don't count.
export function addedBy({ delta, text, finish_reason: finish }) {
  const content = delta?.content ?? text ?? "";
  const reasoning = delta?.reasoning_content ?? delta?.reasoning ?? "";
  return { content, reasoning, isToken: content !== "" || reasoning !== "" || (!finish && !delta?.role) };
}

// The tokens of an answer, over all requests that continued it.
export const tokensOf = ({ usage, chunks = 0, earlier = 0 }) => (usage?.completion_tokens ?? chunks) + earlier;

export class Answer {
  // Appends to `message.content`, which may be the beginning of an answer that was cut off. `changed()` is called for each change on
  // the screen, `save()` now and then.
  constructor(message, { changed, save, context }) {
    this.message = message;
    this.changed = changed;
    this.save = save;
    this.stats = { chunks: 0, context };
    this.earlier = message.stats;
    this.controller = new AbortController();
    this.wait = "Waiting for the first token";
    this.saved = 0;
    this.frame = 0;
  }

  stop() {
    this.controller.abort();
  }

  // Called when the reader leaves the page, which ends the stream. The received text stays, marked as partial.
  leave() {
    this.left = true;
    this.save();
  }

  async run(path, body) {
    const { message, stats } = this;
    this.begun = now();
    message.partial = true;
    message.parts = (message.parts ?? 0) + 1; // requests that the text comes from
    delete message.error;
    delete message.stats;
    const clock = setInterval(() => this.show(), 1000);
    try {
      for await (const chunk of stream(path, body, this.controller.signal)) this.take(chunk);
    } catch (error) {
      if (this.controller.signal.aborted) stats.stopped = true;
      else if (!this.left) message.error = this.describe(error);
    }
    clearInterval(clock);
    cancelAnimationFrame(this.frame);
    if (this.left) return;
    stats.seconds = now() - this.begun;
    if (this.earlier) {
      stats.earlier = tokensOf(this.earlier);
      if (message.error && stats.chunks === 0) stats.finish = this.earlier.finish; // it can be continued still
    }
    delete message.partial;
    message.stats = stats;
  }

  take(chunk) {
    const { message, stats } = this;
    const [choice] = chunk.choices ?? [];
    const added = choice ? addedBy(choice) : {};
    if (added.isToken) {
      stats.chunks += 1;
      stats.firstSeconds ??= now() - this.begun;
      this.wait = "";
      message.content += added.content;
      if (added.reasoning) message.reasoning = (message.reasoning ?? "") + added.reasoning;
    }
    if (choice?.finish_reason) stats.finish = choice.finish_reason;
    if (chunk.usage) stats.usage = chunk.usage;
    if (chunk.timings) stats.timings = chunk.timings;
    const read = chunk.prompt_progress;
    if (read && !stats.firstSeconds) this.wait = `Reading the prompt: ${read.processed} of ${read.total} tokens`;
    this.show();
  }

  // Returns the line below an answer that has no text yet.
  waitText() {
    const waited = now() - this.begun;
    return this.wait && waited >= 2 ? `${this.wait} · ${seconds(Math.floor(waited))}` : this.wait;
  }

  show() {
    if (!this.frame) {
      this.frame = requestAnimationFrame(() => {
        this.frame = 0;
        this.changed();
      });
    }
    if (performance.now() - this.saved > SAVE_EVERY) {
      this.saved = performance.now();
      this.save();
    }
  }

  describe(error) {
    return error instanceof ApiError ? explain(error) : { message: `The page failed: ${error.message}` };
  }
}
