// Conversations and choices in the browser's localStorage, which all tabs share. If localStorage is full or forbidden,
// they last as long as the page.

import { merge } from "./merge.js";
import { readConversation } from "./stored.js";

const PREFIX = "tp-infer.conversation.";
const opened = new Map(); // key: id; value: {conversation, base}; `base`: text that this tab last read or wrote, null before the first save
const removed = new Set(); // ids of conversations that this tab has removed
const dropped = new WeakSet(); // conversations that a tab has removed, although an answer may still be running here
let onFull = () => {};
let isRunning = () => false;

export function onStorageFull(handler) {
  onFull = handler;
}

function readItem(name) {
  try {
    return localStorage.getItem(name);
  } catch {
    return null; // no storage
  }
}

function removeItem(name) {
  try {
    localStorage.removeItem(name);
  } catch {
    // There was nothing to remove.
  }
}

// Returns `fallback` if the stored choice has a different type, because it is damaged then.
export function readChoice(name, fallback) {
  try {
    const value = JSON.parse(readItem(`tp-infer.${name}`));
    return value !== null && typeof value === typeof fallback && Array.isArray(value) === Array.isArray(fallback)
      ? value
      : fallback;
  } catch {
    return fallback;
  }
}

export function writeChoice(name, value) {
  try {
    localStorage.setItem(`tp-infer.${name}`, JSON.stringify(value));
  } catch {
    // The choice lasts as long as the page is open.
  }
}

// Returns the same object as long as the page is open, so an answer grows even in a hidden conversation.
export function load(id) {
  if (!opened.has(id)) {
    const base = removed.has(id) ? null : readItem(PREFIX + id);
    const conversation = base === null ? null : readConversation(id, base);
    if (!conversation) return null;
    opened.set(id, { conversation, base });
  }
  return opened.get(id).conversation;
}

function write(entry) {
  const text = JSON.stringify(entry.conversation);
  try {
    localStorage.setItem(PREFIX + entry.conversation.id, text);
    entry.base = text;
  } catch {
    onFull();
  }
}

// Merges the version that another tab has stored. Returns whether that version lacks changes of this tab.
function catchUp(entry) {
  const { conversation, base } = entry;
  const { id } = conversation;
  const stored = readItem(PREFIX + id);
  const theirs = stored === null || stored === base ? null : readConversation(id, stored);
  if (!theirs) return false;
  const begun = (base && readConversation(id, base)) ?? { messages: {}, text: "" };
  const lacks = merge(conversation, begun, theirs, isRunning(id));
  entry.base = stored;
  return lacks;
}

function drop(id) {
  if (opened.has(id)) dropped.add(opened.get(id).conversation);
  opened.delete(id);
}

export function save(conversation) {
  const { id } = conversation;
  if (dropped.has(conversation)) return;
  const entry = opened.get(id) ?? { conversation, base: null };
  if (entry.base !== null && readItem(PREFIX + id) === null) return drop(id); // another tab has removed the conversation
  opened.set(id, entry);
  catchUp(entry);
  write(entry);
}

export function remove(id) {
  drop(id);
  removed.add(id);
  removeItem(PREFIX + id);
}

export function restore(conversation) {
  removed.delete(conversation.id);
  dropped.delete(conversation);
  save(conversation);
}

// Returns all conversations, the last changed first.
export function all() {
  const ids = new Set(opened.keys());
  try {
    for (let i = 0; i < localStorage.length; ++i) {
      const name = localStorage.key(i);
      if (name.startsWith(PREFIX)) ids.add(name.slice(PREFIX.length));
    }
  } catch {
    // Without storage, only open conversations exist.
  }
  return [...ids]
    .map(load)
    .filter((conversation) => conversation !== null)
    .sort((a, b) => b.updated - a.updated);
}

// Calls `changed(id)` when another tab has changed a conversation, and `gone(id)` when another tab has removed it.
// `running(id)`: whether this tab is receiving an answer.
export function watch(running, { changed, gone }) {
  isRunning = running;
  addEventListener("storage", ({ key }) => {
    if (!key?.startsWith(PREFIX)) return;
    const id = key.slice(PREFIX.length);
    const entry = opened.get(id);
    const isStored = readItem(key) !== null;
    if (removed.has(id)) {
      if (isStored) removeItem(key); // the other tab had not yet seen the removal
    } else if (!isStored) {
      drop(id);
      gone(id);
    } else {
      if (entry && catchUp(entry)) write(entry);
      changed(id);
    }
  });
}
