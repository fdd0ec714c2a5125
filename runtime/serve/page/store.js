// Conversations and choices in the browser's localStorage. Where that is denied or full, they last as long as the page.

const PREFIX = "tp-infer.conversation.";
const opened = new Map();
let onFull = () => {};

export function onStorageFull(handler) {
  onFull = handler;
}

export function readChoice(name, fallback) {
  try {
    const text = localStorage.getItem(`tp-infer.${name}`);
    return text === null ? fallback : JSON.parse(text);
  } catch {
    return fallback;
  }
}

export function writeChoice(name, value) {
  try {
    localStorage.setItem(`tp-infer.${name}`, JSON.stringify(value));
  } catch {
    // Kept for as long as the page is open.
  }
}

function parse(text) {
  try {
    const value = JSON.parse(text);
    return value?.id && value.messages ? value : null;
  } catch {
    return null;
  }
}

// The same object for as long as the page is open, so that an answer goes on growing in a conversation that is not shown.
export function load(id) {
  if (!opened.has(id)) {
    let stored = null;
    try {
      stored = parse(localStorage.getItem(PREFIX + id));
    } catch {
      // No storage.
    }
    if (!stored) return null;
    opened.set(id, stored);
  }
  return opened.get(id);
}

export function save(conversation) {
  opened.set(conversation.id, conversation);
  try {
    localStorage.setItem(PREFIX + conversation.id, JSON.stringify(conversation));
  } catch {
    onFull();
  }
}

export function remove(id) {
  opened.delete(id);
  try {
    localStorage.removeItem(PREFIX + id);
  } catch {
    // There was nothing to remove.
  }
}

// All conversations, those that changed last first.
export function all() {
  const ids = new Set(opened.keys());
  try {
    for (let i = 0; i < localStorage.length; ++i) {
      const name = localStorage.key(i);
      if (name.startsWith(PREFIX)) ids.add(name.slice(PREFIX.length));
    }
  } catch {
    // Only what is open.
  }
  return [...ids]
    .map(load)
    .filter((conversation) => conversation !== null)
    .sort((a, b) => b.updated - a.updated);
}

// Calls `changed(id)` when another tab has changed or deleted a conversation, unless `isRunning(id)`: what is being written here
// will be saved over it.
export function watch(isRunning, changed) {
  addEventListener("storage", ({ key }) => {
    if (!key?.startsWith(PREFIX)) return;
    const id = key.slice(PREFIX.length);
    if (isRunning(id)) return;
    opened.delete(id);
    changed(id);
  });
}
