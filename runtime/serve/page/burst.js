// Many answers at once, so that one can see what batching does: their texts grow side by side.
//
// A browser opens six connections to an HTTP/1.1 server and lets further requests wait, so the answers come through at most
// four, each a stream of several choices (`n`); the other connections are for the rest of the page.

import { addedBy } from "./answer.js";
import { ApiError, stream } from "./api.js";
import { announce, element } from "./dom.js";
import { plural, rate, seconds } from "./format.js";
import { sampling } from "./settings.js";

const SIZES = [1, 4, 16, 32];
const STREAMS = 4;
const LENGTH = 120; // maximum number of tokens of an answer, unless the settings set one
const SHOW_EVERY = 100; // ms

const now = () => performance.now() / 1000;

class Cell {
  constructor(number) {
    this.tokens = 0;
    this.note = element("span");
    this.text = element("p");
    this.node = element(
      "li",
      {},
      element("h3", {}, String(number), this.note),
      element("div", { class: "tail", tabindex: "0", role: "group", "aria-label": `Answer ${number}` }, this.text),
    );
    this.pending = "";
  }

  take(text) {
    this.tokens += 1;
    this.pending += text;
  }

  show() {
    if (this.pending) this.text.append(this.pending);
    this.pending = "";
    this.note.textContent = plural(this.tokens, "token");
  }

  end(reason) {
    this.node.classList.add(reason);
    this.show();
  }
}

export class Burst {
  constructor(server) {
    this.server = server;
    this.controller = null;
    this.results = new Map(); // tokens/s; key: number of answers
    this.build();
  }

  build() {
    this.prompt = element("input", { id: "burst-prompt", type: "text", autocomplete: "off" });
    this.prompt.value = "Tell me a story about a white hen.";
    this.size = element(
      "select",
      { id: "burst-size" },
      ...SIZES.map((n) => element("option", { value: n, selected: n === 16 }, String(n))),
    );
    this.button = element("button", { id: "burst-start", class: "primary" });
    this.summary = element("p", { class: "summary" });
    this.problem = element("p", { class: "error", role: "alert", hidden: true });
    this.compared = element("ul", { class: "compared", hidden: true });
    this.grid = element("ul", { class: "burst-grid" });
    this.size.addEventListener("change", () => this.showButton());
    const form = element(
      "form",
      { class: "burst-form" },
      element("div", { class: "grow" }, element("label", { for: "burst-prompt" }, "Prompt"), this.prompt),
      element("div", {}, element("label", { for: "burst-size" }, "Requests"), this.size),
      this.button,
    );
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      if (this.controller) this.stop();
      else this.start();
    });
    this.node = element(
      "section",
      { class: "burst" },
      element("h2", {}, "Many at once"),
      element(
        "p",
        { class: "note" },
        "The server computes a token of every running answer in one step, for little more than the time of one.",
      ),
      form,
      this.problem,
      this.summary,
      this.compared,
      this.grid,
    );
    this.showButton();
  }

  showButton() {
    const n = Number(this.size.value);
    this.button.textContent = this.controller ? "Stop" : n === 1 ? "One request" : `${n} requests at once`;
  }

  stop() {
    this.controller?.abort();
  }

  async start() {
    const n = Number(this.size.value);
    const cells = Array.from({ length: n }, (_, i) => new Cell(i + 1));
    this.cells = cells;
    this.grid.replaceChildren(...cells.map(({ node }) => node));
    this.grid.classList.toggle("single", n === 1);
    this.problem.hidden = true;
    this.controller = new AbortController();
    this.begun = now();
    this.showButton();
    if (this.node.getBoundingClientRect().bottom > innerHeight) this.node.scrollIntoView();
    announce(`${plural(n, "request")} started`);
    const timer = setInterval(() => this.show(), SHOW_EVERY);
    const streams = Math.min(STREAMS, n);
    const share = (i) => cells.filter((_, index) => index % streams === i);
    const ends = await Promise.allSettled(Array.from({ length: streams }, (_, i) => this.run(share(i), i)));
    clearInterval(timer);
    this.finish(n, ends.find(({ status }) => status === "rejected")?.reason);
  }

  // Runs one stream, with one choice for each cell.
  async run(cells, index) {
    const { model, chat } = this.server;
    const text = this.prompt.value;
    const { seed = 1, ...settings } = sampling();
    const body = {
      model,
      temperature: 1,
      max_tokens: LENGTH,
      ...settings,
      n: cells.length,
      seed: seed + index,
      ...(chat ? { messages: [{ role: "user", content: text }] } : { prompt: text }),
    };
    const path = chat ? "v1/chat/completions" : "v1/completions";
    for await (const chunk of stream(path, body, this.controller.signal)) {
      for (const choice of chunk.choices ?? []) {
        const cell = cells[choice.index];
        const { content, reasoning, isToken } = addedBy(choice);
        if (isToken) cell.take(reasoning + content);
        if (choice.finish_reason) cell.end("done");
      }
    }
  }

  show() {
    for (const cell of this.cells) cell.show();
    const tokens = this.cells.reduce((sum, cell) => sum + cell.tokens, 0);
    const elapsed = now() - this.begun;
    const done = this.cells.filter((cell) => cell.node.classList.contains("done")).length;
    this.rate = tokens / elapsed;
    this.summary.replaceChildren(
      element("strong", {}, rate(this.rate)),
      ` tokens/s together · ${plural(tokens, "token")} in ${seconds(elapsed)} · ${done} of ${this.cells.length} complete`,
    );
  }

  finish(n, error) {
    this.show();
    const stopped = this.controller.signal.aborted;
    this.controller.abort(); // if one stream has failed, stops the others
    this.controller = null;
    this.showButton();
    if (error && !stopped) {
      this.problem.hidden = false;
      this.problem.textContent = error instanceof ApiError ? error.message : `The page failed: ${error.message}`;
      return;
    }
    announce(stopped ? "Stopped" : `${plural(n, "answer")} complete, ${rate(this.rate)} tokens per second together`);
    if (!stopped) this.compare(n);
  }

  // Shows the rates of the sizes tried so far, as bars on a common scale.
  compare(n) {
    this.results.set(n, this.rate);
    const highest = Math.max(...this.results.values());
    const rows = [...this.results]
      .sort(([a], [b]) => a - b)
      .map(([size, value]) => {
        const fill = element("div", { class: "fill" });
        fill.style.width = `${(100 * value) / highest}%`;
        const single = size > 1 && this.results.get(1);
        const times = single ? `, ${(value / single).toFixed(1)} times one` : "";
        return element(
          "li",
          {},
          element("span", {}, plural(size, "request")),
          element("div", { class: "meter" }, fill),
          element("span", {}, `${rate(value)} tokens/s${times}`),
        );
      });
    this.compared.replaceChildren(...rows);
    this.compared.hidden = rows.length < 2;
  }
}
