// Plain completion: the model continues a text. This mode is for models without a chat template, and for drafts.

import { Answer } from "./answer.js";
import { announce, copyButton, element, find } from "./dom.js";
import { statsText } from "./message_view.js";
import { sampling } from "./settings.js";
import { save } from "./store.js";

export class TextView {
  constructor(server, { changed }) {
    this.server = server;
    this.changed = changed;
    this.conversation = null;
    this.answers = new Map(); // running answers; key: conversation id
    this.field = find("text-field");
    this.listen();
  }

  listen() {
    find("text-form").addEventListener("submit", (event) => {
      event.preventDefault();
      if (this.answer()) this.stop();
      else this.extend();
    });
    this.field.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
      event.preventDefault();
      if (!this.answer()) this.extend();
    });
    this.field.addEventListener("input", () => {
      this.conversation.text = this.field.value;
      delete this.conversation.before; // undoing would lose text that was written later
      this.keep(this.conversation);
      this.showButtons();
    });
    find("text-undo").addEventListener("click", () => {
      this.undo();
      this.field.focus();
    });
    find("text-again").addEventListener("click", () => {
      this.undo();
      this.extend();
    });
    find("text-copy").append(copyButton(() => this.field.value));
  }

  answer() {
    return this.answers.get(this.conversation?.id);
  }

  open(conversation) {
    this.conversation = conversation;
    this.field.value = conversation.text;
    this.field.scrollTop = this.field.scrollHeight;
    this.render();
  }

  render() {
    const { last } = this.conversation;
    const answer = this.answer();
    this.field.readOnly = answer !== undefined;
    find("text-stats").textContent = answer ? answer.waitText() : last?.stats ? statsText(last.stats) : "";
    this.showError(answer ? null : last?.error);
    this.showButtons();
  }

  showButtons() {
    const running = this.answer() !== undefined;
    const { before } = this.conversation;
    find("text-continue").textContent = running ? "Stop" : "Continue";
    find("text-continue").disabled = !running && this.field.value === "";
    find("text-again").disabled = running || before === undefined;
    find("text-undo").disabled = running || before === undefined;
  }

  showError(error) {
    const box = find("text-error");
    if (!error) return box.replaceChildren();
    const again = element("button", { type: "button", onclick: () => this.extend() }, "Try again");
    box.replaceChildren(
      element(
        "div",
        { class: "error" },
        element("p", {}, error.message + (error.isTooLong ? " Shorten the text." : "")),
        element("div", { class: "row" }, again),
      ),
    );
  }

  // Shows text from another tab.
  refresh() {
    const { selectionStart, selectionEnd } = this.field;
    if (this.field.value !== this.conversation.text) {
      this.field.value = this.conversation.text;
      this.field.setSelectionRange(selectionStart, selectionEnd);
    }
    this.render();
  }

  keep(conversation) {
    conversation.updated = Date.now();
    save(conversation);
    this.changed();
  }

  undo() {
    const { conversation } = this;
    conversation.text = conversation.before;
    delete conversation.before;
    delete conversation.last;
    this.keep(conversation);
    this.open(conversation);
  }

  stop() {
    this.answer()?.stop();
  }

  async extend() {
    const { conversation } = this;
    if (this.answers.has(conversation.id) || conversation.text === "") return;
    conversation.before = conversation.text;
    const message = { content: "" };
    let added = 0; // characters of the answer that the text already contains
    const grow = () => {
      conversation.text += message.content.slice(added);
      added = message.content.length;
    };
    const show = () => {
      grow();
      if (this.conversation !== conversation) return;
      const atEnd = this.field.scrollHeight - this.field.scrollTop - this.field.clientHeight < 40;
      this.field.value = conversation.text;
      if (atEnd) this.field.scrollTop = this.field.scrollHeight;
      this.render();
    };
    const answer = new Answer(message, {
      context: this.server.context,
      changed: show,
      save: () => (grow(), save(conversation)),
    });
    this.answers.set(conversation.id, answer);
    this.render();
    announce("Continuing");
    await answer.run("v1/completions", { model: this.server.model, prompt: conversation.before, ...sampling() });
    this.answers.delete(conversation.id);
    conversation.last = { stats: message.stats, error: message.error };
    show();
    this.keep(conversation);
    announce(message.error ? `No continuation: ${message.error.message}` : "The continuation is complete");
  }
}
