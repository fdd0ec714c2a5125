// One message on the page: its text, its statistics and its buttons.

import { tokensOf } from "./answer.js";
import { FileList, foldedFile } from "./attachments.js";
import { copyButton, element, iconButton } from "./dom.js";
import { count, percent, plural, rate, seconds } from "./format.js";
import { MarkdownView } from "./markdown.js";

// "128 tokens · 33.1 tokens/s · first after 420 ms": from the server's `usage` and `timings`, and the page's clock.
export function statsText(stats) {
  const { usage, timings, firstSeconds, seconds: total, chunks, finish, stopped, context } = stats;
  const tokens = usage?.completion_tokens ?? chunks;
  const parts = [];
  if (tokens > 0) {
    parts.push(plural(tokensOf(stats), "token"));
    const measured = total - firstSeconds > 0 ? (tokens - 1) / (total - firstSeconds) : NaN;
    const perSecond = timings?.predicted_per_second ?? measured;
    if (tokens > 1 && Number.isFinite(perSecond)) parts.push(`${rate(perSecond)} tokens/s`);
  }
  if (firstSeconds > 0) parts.push(`first after ${seconds(firstSeconds)}`);
  const cached = usage?.prompt_tokens_details?.cached_tokens;
  if (cached > 0) parts.push(`${count(cached)} of ${plural(usage.prompt_tokens, "prompt token")} cached`);
  if (usage?.total_tokens > context / 2) parts.push(`context ${count(usage.total_tokens)} of ${count(context)}`);
  if (stopped) parts.push("stopped");
  if (finish === "length") parts.push(isFull(stats) ? "the model's context is full" : "token limit reached");
  return parts.join(" · ");
}

const isFull = ({ usage, context }) => usage?.total_tokens >= context;

const PARTS = [
  ["compute", "computing"],
  ["collectives", "collectives"],
  ["waiting", "waiting for other ranks"],
];

// Returns a small bar that shows how the ranks spent their time on this answer, or null if the server does not report
// it.
function timeSplit(timings) {
  const times = PARTS.map(([name]) => timings?.[`${name}_ms`] ?? 0);
  const sum = times.reduce((a, b) => a + b, 0);
  if (!(sum > 0)) return null;
  const words = PARTS.map(([, label], i) => `${label} ${percent(times[i], sum)}`).join(", ");
  const bar = element("span", {
    class: "split",
    role: "img",
    "aria-label": `Time of the ranks: ${words}`,
    title: words,
  });
  times.forEach((time, i) => {
    const part = element("span", { class: `part ${PARTS[i][0]}` });
    part.style.width = `${(100 * time) / sum}%`;
    bar.append(part);
  });
  return bar;
}

export class MessageView {
  // `actions` has what the buttons do: edit(message, text, files), again(message), goOn(message), show(message), asText(message),
  // editQuestion(message), startNew().
  constructor(message, name, actions) {
    this.message = message;
    this.actions = actions;
    this.isUser = message.role === "user";
    this.body = element("div", { class: this.isUser ? "words" : "words prose" });
    this.markdown = this.isUser ? null : new MarkdownView(this.body);
    this.reasoning = element("div", { class: "reasoning-text" });
    this.folded = element("details", { class: "reasoning" }, element("summary", {}, "Reasoning"), this.reasoning);
    this.waiting = element("p", { class: "waiting" });
    this.error = element("div", { class: "error" });
    this.files = (message.attachments ?? []).map(foldedFile);
    this.stats = element("p", { class: "stats" });
    this.buttons = element("div", { class: "actions" });
    this.node = element(
      "article",
      { class: `message ${message.role}`, "aria-label": this.isUser ? "You" : name },
      element("h2", { class: this.isUser ? "sr-only" : "who" }, this.isUser ? "You" : name),
      this.folded,
      ...this.files.map(({ node }) => node),
      this.body,
      this.waiting,
      this.error,
      element("footer", {}, this.buttons, this.stats),
    );
  }

  // `run` tells about an answer that is being written: {wait} in words, or null. `isLast`: no message follows.
  update(run, versions, isLast) {
    const { message } = this;
    for (const { update } of this.files) update();
    this.body.hidden = this.isUser && message.content === "";
    if (this.isUser) this.body.textContent = message.content;
    else this.markdown.update(message.content);
    // Unchanged text is not set again, because setting it would end the reader's selection.
    if (this.reasoning.textContent !== (message.reasoning ?? "")) this.reasoning.textContent = message.reasoning;
    this.folded.hidden = !message.reasoning;
    this.node.classList.toggle("running", run !== null);
    this.waiting.textContent = run?.wait ?? "";
    this.waiting.hidden = !run?.wait;
    const interrupted = message.partial && run === null ? "The page was left before this answer was complete" : "";
    this.stats.textContent = message.stats ? statsText(message.stats) : interrupted;
    const split = timeSplit(message.stats?.timings);
    if (split) this.stats.append(" ", split);
    this.showError(run);
    this.buttons.replaceChildren(...(run ? [] : this.makeButtons(versions, isLast)));
  }

  showError(run) {
    const { error } = this.message;
    this.error.hidden = !error || run !== null;
    if (this.error.hidden) return this.error.replaceChildren();
    const { actions, message } = this;
    const button = (label, onclick) => element("button", { type: "button", onclick }, label);
    const row = element("div", { class: "row" });
    if (error.isTooLong) {
      row.append(button("Edit the message", () => actions.editQuestion(message)));
      row.append(button("New conversation", () => actions.startNew()));
    } else {
      row.append(button("Try again", () => actions.again(message)));
    }
    if (error.noTemplate) row.append(button("Continue it as plain text", () => actions.asText(message)));
    const advice = error.isTooLong ? " Edit the message or begin a new conversation." : "";
    this.error.replaceChildren(element("p", {}, error.message + advice), row);
  }

  makeButtons(versions, isLast) {
    const { message, actions } = this;
    const buttons = message.content ? [copyButton(() => message.content)] : [];
    const { stats } = message;
    if (isLast && stats?.finish === "length" && message.content && !isFull(stats)) {
      buttons.unshift(
        element("button", { type: "button", class: "go-on", onclick: () => actions.goOn(message) }, "Continue"),
      );
    }
    if (this.isUser) buttons.push(iconButton("edit", "Edit and send again", () => this.edit()));
    else if (!message.error) buttons.push(iconButton("again", "Answer again", () => actions.again(message)));
    if (versions.length > 1) {
      const at = versions.indexOf(message);
      const step = (name, label, to) =>
        iconButton(name, label, () => actions.show(versions[to]), { disabled: versions[to] === undefined });
      buttons.push(
        element(
          "span",
          { class: "versions", role: "group", "aria-label": "Versions" },
          step("back", "Earlier version", at - 1),
          element("span", {}, `${at + 1} / ${versions.length}`),
          step("forward", "Later version", at + 1),
        ),
      );
    }
    return buttons;
  }

  edit() {
    const area = element("textarea", { "aria-label": "Edit message", class: "edit" });
    area.value = this.message.content;
    const close = () => {
      form.replaceWith(this.body);
      this.node.classList.remove("editing");
      this.files.forEach(({ node }) => (node.hidden = false));
      this.buttons.querySelector("button:nth-of-type(2)")?.focus();
    };
    const files = new FileList(this.message.attachments ?? []);
    this.files.forEach(({ node }) => (node.hidden = true));
    const submit = () => {
      const text = area.value.trim();
      if (text || files.files.length > 0) this.actions.edit(this.message, text, files.files);
    };
    const form = element(
      "form",
      { class: "editor", onsubmit: (event) => (event.preventDefault(), submit()) },
      files.node,
      area,
      element(
        "div",
        { class: "row" },
        element("button", { class: "primary" }, "Send"),
        element("button", { type: "button", onclick: close }, "Cancel"),
      ),
    );
    area.addEventListener("keydown", (event) => {
      if (event.key === "Escape") {
        event.stopPropagation();
        close();
      }
      if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        submit();
      }
    });
    this.node.classList.add("editing");
    this.body.replaceWith(form);
    fit(area);
    area.addEventListener("input", () => fit(area));
    area.focus();
  }
}

// Makes a text field as high as its text. The style sheet limits the height.
export function fit(area) {
  area.style.height = "auto";
  area.style.height = `${area.scrollHeight}px`;
}
