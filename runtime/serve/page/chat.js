// The chat: a branch of a conversation, and the field below it.

import { Answer } from "./answer.js";
import { FileList, listenForFiles } from "./attachments.js";
import { append, branch, prompt, select, titleOf, versions } from "./conversation.js";
import { announce, element, find, setIcon } from "./dom.js";
import { plural } from "./format.js";
import { MessageView, fit } from "./message_view.js";
import { sampling } from "./settings.js";
import { save } from "./store.js";

const READ_ALOUD = 400; // most characters of an answer that a screen reader reads aloud

export class Chat {
  // `server` has {model, name, context}; `changed` is called when the list of conversations may look different.
  constructor(server, { changed, asText, startNew }) {
    this.server = server;
    this.changed = changed;
    this.asText = asText;
    this.startNew = startNew;
    this.conversation = null;
    this.answers = new Map(); // running answers; key: conversation id
    this.views = new Map(); // key: message id
    this.log = find("log");
    this.scroller = find("scroller");
    this.field = find("composer-text");
    this.sticks = true;
    this.files = new FileList([], () => this.files && this.showButton());
    document.querySelector("#composer .field").before(this.files.node);
    listenForFiles(this.files, () => server.model);
    this.listen();
  }

  listen() {
    find("composer").addEventListener("submit", (event) => {
      event.preventDefault();
      if (this.answer()) this.stop();
      else this.send();
    });
    this.field.addEventListener("keydown", (event) => {
      // A touch keyboard has no Shift + Enter, so Enter starts a new line there, and the button sends.
      if (event.key !== "Enter" || event.shiftKey || event.isComposing || matchMedia("(pointer: coarse)").matches)
        return;
      event.preventDefault();
      if (!this.answer()) this.send();
    });
    this.field.addEventListener("input", () => {
      fit(this.field);
      this.showButton();
    });
    this.scroller.addEventListener("scroll", () => {
      const { scrollTop, scrollHeight, clientHeight } = this.scroller;
      this.sticks = scrollHeight - scrollTop - clientHeight < 40;
      find("to-end").hidden = this.sticks;
    });
    find("to-end").addEventListener("click", () => {
      this.sticks = true;
      this.follow();
      this.field.focus();
    });
  }

  answer() {
    return this.answers.get(this.conversation?.id);
  }

  open(conversation) {
    this.conversation = conversation;
    this.sticks = true;
    this.render();
    this.follow();
  }

  // Shows the whole branch again.
  render() {
    this.views.clear();
    const actions = {
      edit: (message, text, files) => this.ask(message.parent, text, files),
      again: (message) => this.reply(message.parent),
      goOn: (message) => this.goOn(message),
      editQuestion: (message) => this.views.get(message.parent)?.edit(),
      startNew: this.startNew,
      asText: (message) => this.asText(prompt(this.conversation, message.parent)),
      show: (message) => {
        select(this.conversation, message);
        this.keep(this.conversation);
        this.render();
      },
    };
    for (const message of branch(this.conversation)) {
      this.views.set(message.id, new MessageView(message, this.server.name, actions));
    }
    this.log.replaceChildren(...[...this.views.values()].map((view) => view.node));
    for (const id of this.views.keys()) this.showMessage(this.conversation.messages[id]);
    find("welcome").hidden = this.views.size > 0;
    find("chat-title").hidden = this.views.size === 0;
    find("chat-title").textContent = titleOf(this.conversation);
    this.showButton();
  }

  // Shows text from another tab, unless a message is being edited.
  refresh() {
    if (this.log.querySelector(".editing")) return;
    const ids = branch(this.conversation).map(({ id }) => id);
    if (ids.join() !== [...this.views.keys()].join()) return this.render();
    for (const id of ids) this.showMessage(this.conversation.messages[id]);
    this.follow();
  }

  showMessage(message) {
    const answer = this.answer();
    const run = answer?.message === message ? { wait: answer.waitText() } : null;
    const isLast = message.id === this.conversation.leaf;
    this.views.get(message.id)?.update(run, versions(this.conversation, message), isLast);
  }

  showButton() {
    const button = find("send");
    const running = this.answer() !== undefined;
    setIcon(button, running ? "stop" : "send", running ? "Stop" : "Send");
    const isEmpty = this.field.value.trim() === "" && this.files.files.length === 0;
    button.setAttribute("aria-disabled", String(!running && isEmpty));
    find("composer-hint").textContent = running
      ? "Esc stops the answer"
      : "Enter sends, Shift + Enter starts a new line";
  }

  follow() {
    if (this.sticks) this.scroller.scrollTop = this.scroller.scrollHeight;
  }

  keep(conversation) {
    conversation.updated = Date.now();
    save(conversation);
    this.changed();
  }

  send(text = this.field.value.trim()) {
    if ((!text && this.files.files.length === 0) || this.answer()) return;
    this.field.value = "";
    fit(this.field);
    this.ask(this.conversation.leaf, text, this.files.take());
  }

  ask(parent, text, files) {
    const question = append(this.conversation, parent, "user", text, files);
    this.reply(question.id);
    this.field.focus();
  }

  stop() {
    this.answer()?.stop();
  }

  // Answers the message `parent`. Earlier answers stay as versions.
  reply(parent) {
    if (this.answer()) return;
    const message = append(this.conversation, parent, "assistant", "");
    this.stream(message, { messages: prompt(this.conversation, parent) });
  }

  // Continues an answer that was cut off. The server continues it without the spaces at its end.
  goOn(message) {
    if (this.answer()) return;
    message.content = message.content.trimEnd();
    this.stream(message, { messages: prompt(this.conversation, message.id), continue_final_message: true });
  }

  // Streams what the model says to `request` into the message.
  async stream(message, request) {
    const { conversation } = this;
    const answer = new Answer(message, {
      context: this.server.context,
      save: () => save(conversation),
      changed: () => this.grow(conversation, message),
    });
    this.answers.set(conversation.id, answer);
    this.sticks = true;
    this.keep(conversation);
    this.render();
    this.follow();
    announce("Answering");
    await answer.run("v1/chat/completions", {
      model: this.server.model,
      ...request,
      ...sampling(),
    });
    this.answers.delete(conversation.id);
    if (conversation.leaf === message.id) select(conversation, message); // another tab may have continued the answer
    this.keep(conversation);
    if (this.conversation === conversation) this.finish(message);
  }

  grow(conversation, message) {
    if (this.conversation !== conversation) return;
    this.showMessage(message);
    this.follow();
  }

  finish(message) {
    this.refresh();
    this.showButton();
    announce(spoken(message));
  }
}

function spoken({ content, error, stats }) {
  if (error) return `No answer: ${error.message}`;
  if (stats?.stopped) return "Stopped";
  return content.length <= READ_ALOUD
    ? content
    : `The answer is complete: ${plural(stats?.usage?.completion_tokens ?? stats?.chunks, "token")}`;
}

// Shows suggestions before the first message.
export function showWelcome(server, { send, newText, connect }) {
  const suggestions = [
    "Tell me a story about a white hen.",
    "Who are you?",
    "Explain what a rank is, in two sentences.",
  ];
  const button = (text, onclick, kind) => element("button", { type: "button", class: kind, onclick }, text);
  find("welcome").replaceChildren(
    element("h1", {}, server.name || "tp-infer"),
    element("p", { class: "lead" }, "What you write here goes to this server and nowhere else."),
    element(
      "div",
      { class: "suggestions" },
      ...suggestions.map((text) => button(text, () => send(text), "suggestion")),
    ),
    element(
      "p",
      { class: "note" },
      "Or ",
      button("let it continue a text", newText, "link"),
      ", or ",
      button("use it from a program", connect, "link"),
      ".",
    ),
  );
}
