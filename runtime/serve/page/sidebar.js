// The list of conversations, with functions to open, rename and delete them.

import { titleOf } from "./conversation.js";
import { element, find, iconButton, toast } from "./dom.js";
import { all, remove, restore, save } from "./store.js";

export class Sidebar {
  // `isRunning(id)`: whether an answer is running. `left(id)`: called when a conversation is deleted.
  constructor({ isRunning, left }) {
    this.isRunning = isRunning;
    this.left = left;
    this.current = null;
    this.list = find("conversations");
    this.listen();
  }

  listen() {
    find("menu").addEventListener("click", () => this.open());
    find("backdrop").addEventListener("click", () => this.close());
    find("sidebar").addEventListener("keydown", (event) => {
      if (event.key === "Escape" && this.isOpen()) this.close();
    });
    const narrow = matchMedia("(max-width: 48rem)");
    narrow.addEventListener("change", () => this.applyWidth(narrow.matches));
    this.applyWidth(narrow.matches);
  }

  // On a narrow screen, the list is hidden, and the keyboard cannot reach it.
  applyWidth(isNarrow) {
    this.isNarrow = isNarrow;
    find("sidebar").inert = isNarrow;
    this.close(false);
  }

  isOpen() {
    return document.body.classList.contains("sidebar-open");
  }

  open() {
    document.body.classList.add("sidebar-open");
    find("backdrop").hidden = false;
    find("sidebar").inert = false;
    find("menu").setAttribute("aria-expanded", "true");
    find("new-conversation").focus();
  }

  close(focusMenu = true) {
    const wasOpen = this.isOpen();
    document.body.classList.remove("sidebar-open");
    find("backdrop").hidden = true;
    find("sidebar").inert = this.isNarrow;
    find("menu").setAttribute("aria-expanded", "false");
    if (wasOpen && focusMenu) find("menu").focus();
  }

  render(current = this.current) {
    this.current = current;
    // Rendering would interrupt a user who is renaming a conversation.
    if (this.list.querySelector("input")) return;
    const conversations = all();
    const focused = this.list.contains(document.activeElement)
      ? document.activeElement.closest("li")?.dataset.id
      : null;
    this.list.replaceChildren(...conversations.map((conversation) => this.item(conversation)));
    find("no-conversations").hidden = conversations.length > 0;
    if (focused) this.list.querySelector(`[data-id="${focused}"] a`)?.focus();
  }

  item(conversation) {
    const title = titleOf(conversation);
    const link = element(
      "a",
      {
        href: `#/c/${conversation.id}`,
        "aria-current": conversation.id === this.current ? "page" : null,
        title,
        onclick: () => this.close(false),
      },
      title,
    );
    if (this.isRunning(conversation.id))
      link.append(element("span", { class: "dot", role: "img", "aria-label": "answering" }));
    const item = element(
      "li",
      { "data-id": conversation.id },
      link,
      iconButton("edit", `Rename “${title}”`, () => this.rename(conversation, item)),
      iconButton("trash", `Delete “${title}”`, () => this.remove(conversation)),
    );
    return item;
  }

  rename(conversation, item) {
    const input = element("input", { "aria-label": "Title", maxlength: 120 });
    input.value = titleOf(conversation);
    let done = false;
    const finish = (keep) => {
      if (done) return;
      done = true;
      if (keep && input.value.trim()) {
        conversation.title = input.value.trim();
        save(conversation);
      }
      input.remove();
      this.render();
      this.list.querySelector(`[data-id="${conversation.id}"] a`)?.focus();
    };
    input.addEventListener("keydown", (event) => {
      if (event.key === "Enter") finish(true);
      if (event.key === "Escape") {
        event.stopPropagation();
        finish(false);
      }
    });
    input.addEventListener("blur", () => finish(true));
    item.replaceChildren(input);
    input.select();
  }

  remove(conversation) {
    const title = titleOf(conversation);
    remove(conversation.id);
    this.left(conversation.id);
    this.render();
    find("new-conversation").focus();
    toast(`Deleted “${title}”`, "Undo", () => {
      restore(conversation);
      this.render();
    });
  }
}
