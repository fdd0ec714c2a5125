// Shows the server's activity and the time of each rank. While the view is visible, it asks the server once a second.

import { getJson } from "./api.js";
import { Burst } from "./burst.js";
import { element, svg } from "./dom.js";
import { bytes, count, percent, plural, rate, seconds } from "./format.js";

const EVERY = 1000; // ms
const KEPT = 120; // status answers in the curve
const WINDOW = 10; // seconds of the moving window for the ranks' times
const PARTS = [
  { name: "compute", label: "computing" },
  { name: "collective", label: "collectives" },
  { name: "waiting", label: "waiting" },
];

function curve() {
  const line = svg("polyline", { points: "", "vector-effect": "non-scaling-stroke" });
  return {
    line,
    node: svg(
      "svg",
      { class: "curve", viewBox: `0 0 ${KEPT - 1} 40`, preserveAspectRatio: "none", "aria-hidden": "true" },
      line,
    ),
  };
}

// Returns a figure with its label. `more`: a node below the figure.
function tile(label, more = element("p", { class: "more" })) {
  const value = element("p", { class: "value" }, "–");
  return { value, more, node: element("div", { class: "tile" }, element("h3", {}, label), value, more) };
}

function meter() {
  const fill = element("div", { class: "fill" });
  return { fill, node: element("div", { class: "meter" }, fill) };
}

// One rank: its name, a bar of its times, and the figures below.
class RankRow {
  constructor() {
    this.name = element("h3");
    this.memory = element("p", { class: "memory" });
    this.parts = PARTS.map(({ name }) => element("div", { class: `part ${name}` }));
    this.bar = element("div", { class: "stack", role: "img" }, ...this.parts);
    this.figures = PARTS.map(({ name, label }) => ({
      value: element("strong"),
      key: element("span", { class: `key ${name}` }),
      label,
    }));
    this.node = element(
      "li",
      {},
      element("div", { class: "rank-name" }, this.name, this.memory),
      element(
        "div",
        {},
        this.bar,
        element(
          "p",
          { class: "figures" },
          ...this.figures.map(({ key, value, label }) => element("span", {}, key, `${label} `, value)),
        ),
      ),
    );
  }

  // `times`: seconds in the order of PARTS. `longest`: largest sum of all ranks. `tokens`: number of tokens generated
  // in this time.
  show(rank, times, longest, tokens) {
    const sum = times.reduce((a, b) => a + b, 0);
    this.name.textContent = `Rank ${rank.rank}`;
    this.name.append(element("span", {}, ` ${rank.host}`));
    this.memory.replaceChildren(
      element("span", {}, `weights ${bytes(rank.weight_bytes)}`),
      " ",
      element("span", {}, `cache ${bytes(rank.cache_bytes)}`),
    );
    times.forEach((time, i) => {
      this.parts[i].style.width = longest > 0 ? `${(100 * time) / longest}%` : "0";
      const each = tokens > 0 ? ` · ${seconds(time / tokens)} a token` : "";
      this.figures[i].value.textContent = percent(time, sum);
      this.figures[i].value.append(element("span", {}, each));
    });
    const words = PARTS.map(({ label }, i) => `${label} ${percent(times[i], sum)}`);
    this.bar.setAttribute("aria-label", `Rank ${rank.rank}: ${words.join(", ")}`);
  }
}

const timesOf = (rank) => PARTS.map(({ name }) => rank[`${name}_seconds`] ?? 0);

// Describes the time span that the times refer to.
function spanText(isBusy, tokens, span) {
  if (tokens === 0) return "Nothing has been generated yet.";
  const generated = plural(tokens, "token");
  if (!isBusy) return `Since the server started: ${generated}. Nothing was generated in the last seconds.`;
  return `In the last ${plural(span, "second")}: ${generated}. The times include reading prompts.`;
}

export class RanksView {
  constructor(server, root) {
    this.server = server;
    this.history = [];
    this.rows = [];
    this.timer = 0;
    this.visible = false;
    this.burst = new Burst(server);
    this.build(root);
    document.addEventListener("visibilitychange", () => this.poll());
  }

  build(root) {
    this.curve = curve();
    this.used = meter();
    this.hits = meter();
    this.generated = tile("Tokens/s", this.curve.node);
    this.prompt = tile("Prompt tokens/s");
    this.running = tile("Running");
    this.waiting = tile("In the queue");
    this.cache = tile("Cache used", this.used.node);
    this.prefix = tile("Prefix hits", this.hits.node);
    this.span = element("p", { class: "note" });
    this.list = element("ul", { class: "rank-list" });
    this.problem = element("p", { class: "error", role: "status", hidden: true });
    this.about = element("p", { class: "note about" });
    const tiles = [this.generated, this.prompt, this.running, this.waiting, this.cache, this.prefix];
    root.append(
      element(
        "div",
        { class: "column wide-column" },
        element("h1", { class: "sr-only" }, "Ranks"),
        this.problem,
        element("section", { class: "tiles", "aria-label": "The server now" }, ...tiles.map(({ node }) => node)),
        element(
          "section",
          { class: "times" },
          element("h2", {}, "Where the time of a token goes"),
          this.span,
          this.list,
        ),
        this.burst.node,
        this.about,
      ),
    );
  }

  enter() {
    this.visible = true;
    this.poll();
  }

  leave() {
    this.visible = false;
    clearTimeout(this.timer);
  }

  stop() {
    this.burst.stop();
  }

  async poll() {
    clearTimeout(this.timer);
    if (!this.visible || document.hidden) return;
    try {
      const { several, model } = this.server;
      this.take(await getJson(several ? `v1/status?model=${encodeURIComponent(model)}` : "v1/status"));
      this.problem.hidden = true;
    } catch (error) {
      this.problem.hidden = false;
      this.problem.textContent = `${error.message} Asking again every second.`;
    }
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.poll(), EVERY);
  }

  take(status) {
    if (!status.tokens) throw new Error("The server is loading its model.");
    const last = this.history.at(-1);
    // A different process has restarted the counters.
    if (last && (status.model !== last.model || status.uptime_seconds < last.uptime_seconds)) this.history = [];
    this.history.push(status);
    if (this.history.length > KEPT) this.history.shift();
    this.showFigures(status);
    this.showRanks(status);
  }

  showFigures({ tokens, requests, cache, kv_store: store, step, uptime_seconds: uptime, version, draining }) {
    this.generated.value.textContent = rate(tokens.generated_per_second);
    this.prompt.value.textContent = rate(tokens.prompt_per_second);
    this.prompt.more.textContent = `${count(tokens.prompt_total)} read so far`;
    this.running.value.textContent = count(requests.running);
    this.running.more.textContent = step?.tokens
      ? `last step ${plural(step.tokens, "token")}, ${seconds(step.seconds)}`
      : "";
    this.waiting.value.textContent = count(requests.waiting);
    this.waiting.more.textContent = `${count(requests.finished)} finished`;
    this.cache.value.textContent = percent(cache.used_tokens, cache.capacity_tokens);
    this.cache.value.title = `${count(cache.used_tokens)} of ${plural(cache.capacity_tokens, "token")}`;
    this.used.fill.style.width = `${(100 * cache.used_tokens) / (cache.capacity_tokens || 1)}%`;
    this.prefix.value.textContent = percent(cache.prefix_hits, cache.prefix_queries);
    this.prefix.value.title = `${count(cache.prefix_hits)} of ${plural(cache.prefix_queries, "token")} looked up`;
    if (cache.states) this.prefix.value.title += `; ${plural(cache.snapshots, "snapshot")} of recurrent layers' states`;
    if (store) this.prefix.value.title += `; ${plural(store.tokens, "token")} read from disk`;
    this.hits.fill.style.width = `${(100 * cache.prefix_hits) / (cache.prefix_queries || 1)}%`;
    this.about.textContent = `tp-infer ${version ?? ""} · up ${seconds(uptime)}${draining ? " · draining, no new requests" : ""}`;
    const rates = this.history.map((status) => status.tokens.generated_per_second);
    const highest = Math.max(...rates, 1);
    const first = KEPT - rates.length;
    const points = rates.map((value, i) => `${first + i},${(38 - (36 * value) / highest).toFixed(1)}`);
    this.curve.line.setAttribute("points", points.join(" "));
  }

  showRanks(status) {
    const since =
      this.history.findLast((other) => status.uptime_seconds - other.uptime_seconds >= WINDOW) ?? this.history[0];
    const before = new Map(since.ranks.map((rank) => [rank.rank, timesOf(rank)]));
    const lately = status.ranks.map((rank) =>
      timesOf(rank).map((time, i) => Math.max(time - (before.get(rank.rank)?.[i] ?? 0), 0)),
    );
    const tokensLately = status.tokens.generated_total - since.tokens.generated_total;
    // If the window contains no work, show the times since the start.
    const isBusy = tokensLately > 0 && lately.flat().some((time) => time > 0);
    const times = isBusy ? lately : status.ranks.map(timesOf);
    const tokens = isBusy ? tokensLately : status.tokens.generated_total;
    const longest = Math.max(...times.map((parts) => parts.reduce((a, b) => a + b, 0)));
    this.span.textContent = spanText(isBusy, tokens, Math.round(status.uptime_seconds - since.uptime_seconds));
    while (this.rows.length < status.ranks.length) {
      this.rows.push(new RankRow());
      this.list.append(this.rows.at(-1).node);
    }
    while (this.rows.length > status.ranks.length) this.rows.pop().node.remove();
    status.ranks.forEach((rank, i) => this.rows[i].show(rank, times[i], longest, tokens));
  }
}
