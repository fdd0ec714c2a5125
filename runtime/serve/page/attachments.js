// Text files that go with a message: from a button, dropped on the chat, or pasted. They are folded, and their tokens are counted.

import { countTokens } from "./api.js";
import { element, find, iconButton, setIcon, toast } from "./dom.js";
import { bytes, plural } from "./format.js";

const MAX_BYTES = 1 << 20; // a file's limit
const MOST_PASTED = 2048; // bytes that stay in the field
const MOST_SHOWN = 20000; // characters of an unfolded file

const sizeOf = (text) => new Blob([text]).size;

const labelOf = ({ name, text, tokens }) =>
  `${name} · ${tokens === undefined ? bytes(sizeOf(text)) : plural(tokens, "token")}`;

// The text of a file, or null if it is something else. Windows writes UTF-16 with a mark.
export function decode(data) {
  const mark = data[0] * 256 + data[1];
  const encoding = mark === 0xfffe ? "utf-16le" : mark === 0xfeff ? "utf-16be" : "utf-8";
  try {
    const text = new TextDecoder(encoding, { fatal: true }).decode(data);
    return text.includes("\0") ? null : text;
  } catch {
    return null;
  }
}

// {name, text}, or throws an Error that says why not.
async function read(file) {
  if (file.size > MAX_BYTES) throw new Error(`${file.name} is larger than ${bytes(MAX_BYTES)}`);
  let data = null;
  try {
    data = new Uint8Array(await file.arrayBuffer());
  } catch {
    throw new Error(`${file.name} cannot be read`);
  }
  const text = decode(data);
  if (text === null) throw new Error(`${file.name} is not a text file`);
  if (text === "") throw new Error(`${file.name} is empty`);
  return { name: file.name, text };
}

// An attachment that can be unfolded: {node, update}.
export function foldedFile(file) {
  const { text } = file;
  const summary = element("summary", {}, labelOf(file));
  const shown = text.length > MOST_SHOWN ? `${text.slice(0, MOST_SHOWN)}…` : text;
  const node = element(
    "details",
    { class: "file" },
    summary,
    element("pre", { tabindex: "0", role: "region", "aria-label": file.name }, shown),
  );
  return {
    node,
    update: () => {
      summary.textContent = labelOf(file);
    },
  };
}

// The attachments of a message that is being written, each with a button that removes it.
export class FileList {
  constructor(files, changed = () => {}) {
    this.files = files;
    this.changed = changed;
    this.views = new Map(); // by file
    this.node = element("div", { class: "files" });
    this.render();
  }

  render() {
    for (const file of this.files) if (!this.views.has(file)) this.views.set(file, foldedFile(file));
    const row = (file) => {
      const view = this.views.get(file);
      view.update();
      const remove = iconButton("close", `Remove ${file.name}`, () => this.remove(file));
      return element("div", { class: "row" }, view.node, remove);
    };
    this.node.replaceChildren(...this.files.map(row));
    this.node.hidden = this.files.length === 0;
    this.changed();
  }

  remove(file) {
    this.files = this.files.filter((other) => other !== file);
    this.render();
  }

  // Shows the file, and its tokens as soon as the server has counted them.
  async add(file, model) {
    this.files = [...this.files, file];
    this.render();
    try {
      file.tokens = await countTokens(file.text, model);
    } catch {
      // The size has to do.
    }
    this.views.get(file)?.update();
  }

  // Returns the files, and begins a new list.
  take() {
    const taken = this.files;
    this.files = [];
    this.render();
    return taken;
  }
}

// Fills `list` from the button, from what is dropped on the chat, and from what is pasted into the field.
export function listenForFiles(list, model) {
  const chat = find("chat");
  const picker = find("attach-files");
  const field = find("composer-text");
  const hasFiles = (event) => event.dataTransfer?.types.includes("Files");
  let pasted = 0;

  const addAll = async (files) => {
    const problems = [];
    for (const file of files) {
      try {
        list.add(await read(file), model());
      } catch (error) {
        problems.push(error.message);
      }
    }
    if (problems.length > 0) toast(`${problems.join("; ")}.`);
    field.focus();
  };

  setIcon(find("attach"), "attach", "Attach text files");
  find("attach").addEventListener("click", () => picker.click());
  picker.addEventListener("change", async () => {
    await addAll([...picker.files]);
    picker.value = ""; // so that the same file can be chosen again
  });
  // A file that misses the chat must not replace the page.
  addEventListener("dragover", (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    chat.classList.toggle("dropping", chat.contains(event.target));
  });
  addEventListener("dragleave", (event) => {
    if (event.relatedTarget === null) chat.classList.remove("dropping");
  });
  addEventListener("drop", (event) => {
    chat.classList.remove("dropping");
    if (!hasFiles(event)) return;
    event.preventDefault();
    if (chat.contains(event.target)) addAll([...event.dataTransfer.files]);
  });
  field.addEventListener("paste", (event) => {
    const { files } = event.clipboardData;
    const text = event.clipboardData.getData("text/plain");
    if (sizeOf(text) <= MOST_PASTED && (text !== "" || files.length === 0)) return;
    event.preventDefault();
    if (text === "") return addAll([...files]);
    pasted += 1;
    list.add({ name: `Pasted text ${pasted}`, text }, model());
  });
}
