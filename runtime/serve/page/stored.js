// Reads stored conversations from any version of the page, even damaged ones. Afterwards all members have the types
// that views expect, and the messages are trees.

import { lastBelow } from "./conversation.js";

const isText = (value) => typeof value === "string";
const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
const isId = (value) => isText(value) && /^[0-9a-z]{1,64}$/i.test(value);
const textOr = (value, other) => (isText(value) ? value : other);
const timeOr = (value, other) => (Number.isFinite(value) ? value : other);

// Omits members with a wrong type.
function readOutcome({ stats, error }) {
  return { ...(isObject(stats) && { stats }), ...(isObject(error) && isText(error.message) && { error }) };
}

function readAttachments(value) {
  const isGood = (file) => isObject(file) && isText(file.name) && isText(file.text);
  return (Array.isArray(value) ? value : []).filter(isGood).map(({ name, text, tokens }) => ({
    name,
    text,
    ...(Number.isFinite(tokens) && { tokens }),
  }));
}

function readMessage(id, value) {
  if (!isId(id) || !isObject(value) || !["user", "assistant"].includes(value.role)) return null;
  const attachments = readAttachments(value.attachments);
  return {
    id,
    parent: isId(value.parent) ? value.parent : null,
    role: value.role,
    content: textOr(value.content, ""),
    ...(attachments.length > 0 && { attachments }),
    ...(isText(value.reasoning) && { reasoning: value.reasoning }),
    ...(value.partial === true && { partial: true }),
    ...(Number.isFinite(value.parts) && { parts: value.parts }),
    ...readOutcome(value),
  };
}

// Makes roots of messages without a parent, and of one message in each cycle.
export function repairTree(messages) {
  const checked = new Set(); // ids of messages whose ancestors end at a root
  for (const start of Object.values(messages)) {
    const path = new Set();
    for (let message = start; !checked.has(message.id); message = messages[message.parent]) {
      path.add(message.id);
      if (!Object.hasOwn(messages, message.parent) || path.has(message.parent)) message.parent = null;
      if (message.parent === null) break;
    }
    for (const id of path) checked.add(id);
  }
}

// Returns the conversation, or null if the text is not one.
export function readConversation(id, text) {
  let value = null;
  try {
    value = JSON.parse(text);
  } catch {
    return null;
  }
  if (!isId(id) || !isObject(value) || !isObject(value.messages)) return null;
  const messages = {};
  for (const [name, stored] of Object.entries(value.messages)) {
    const message = readMessage(name, stored);
    if (message) messages[name] = message;
  }
  repairTree(messages);
  const created = timeOr(value.created, 0);
  return {
    id,
    mode: value.mode === "text" ? "text" : "chat",
    title: textOr(value.title, ""),
    system: textOr(value.system, ""),
    created,
    updated: timeOr(value.updated, created),
    messages,
    leaf: lastBelow(messages, Object.hasOwn(messages, value.leaf) ? value.leaf : null),
    text: textOr(value.text, ""),
    ...(isText(value.before) && { before: value.before }),
    ...(isObject(value.last) && { last: readOutcome(value.last) }),
  };
}
