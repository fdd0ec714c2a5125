// A conversation is a tree of messages. An edited message or another answer becomes a sibling of the earlier one, which
// stays. `leaf` is the end of the visible branch.

function newId() {
  const bytes = crypto.getRandomValues(new Uint8Array(8));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

// `mode`: "chat", or "text" for a text that the model continues.
export function newConversation(mode, system = "") {
  const now = Date.now();
  return { id: newId(), mode, title: "", system, created: now, updated: now, messages: {}, leaf: null, text: "" };
}

// `attachments`: texts that the message brings along, {name, text}.
export function append(conversation, parent, role, content, attachments = []) {
  const message = { id: newId(), parent, role, content, ...(attachments.length > 0 && { attachments }) };
  conversation.messages[message.id] = message;
  conversation.leaf = message.id;
  return message;
}

// Returns the messages of a branch, by default the visible one. The oldest message comes first.
export function branch(conversation, leaf = conversation.leaf) {
  const messages = [];
  for (let message = conversation.messages[leaf]; message; message = conversation.messages[message.parent]) {
    messages.push(message);
  }
  return messages.reverse();
}

const isEmptyAnswer = ({ role, content, reasoning }) => role === "assistant" && content === "" && !reasoning;

// Returns a message and its siblings, oldest first. Omits other answers without text: they have failed, and exist only
// because another tab may have continued them.
export function versions(conversation, message) {
  return Object.values(conversation.messages).filter(
    (other) => other === message || (other.parent === message.parent && !isEmptyAnswer(other)),
  );
}

// Returns the end of the newest branch through the message `id`.
export function lastBelow(messages, id) {
  const last = new Map(); // newest child; key: parent
  for (const message of Object.values(messages)) last.set(message.parent, message.id);
  while (last.has(id)) id = last.get(id);
  return id;
}

// Shows the newest branch through `message`.
export function select(conversation, message) {
  conversation.leaf = lastBelow(conversation.messages, message.id);
}

// The attachments between fences, which are longer than any run of backticks in them, then the words.
export function contentOf({ content, attachments = [] }) {
  const files = attachments.map(({ name, text }) => {
    const longest = (text.match(/`+/g) ?? []).reduce((most, { length }) => Math.max(most, length), 2);
    const fence = "`".repeat(longest + 1);
    return `${name}:\n${fence}\n${text.replace(/\n$/, "")}\n${fence}`;
  });
  return [...files, content].filter((part) => part !== "").join("\n\n");
}

// The messages that the model reads before it answers `parent`, the last message. An answer as the last message is continued.
export function prompt(conversation, parent) {
  const messages = branch(conversation, parent)
    .map((message) => ({ role: message.role, content: contentOf(message) }))
    .filter(({ content }) => content !== "");
  const system = conversation.system.trim();
  return system ? [{ role: "system", content: system }, ...messages] : messages;
}

export function titleOf(conversation) {
  if (conversation.title) return conversation.title;
  const [message] = branch(conversation);
  const first = conversation.mode === "text" ? conversation.text : message?.content || message?.attachments?.[0].name;
  const line = (first ?? "").trim().split("\n")[0];
  return line.length > 60 ? `${line.slice(0, 57).trimEnd()}…` : line || "New conversation";
}

// Returns the exported conversation: the visible branch, with messages in the form of chat completions.
export function exported(conversation, model, settings) {
  const about = {
    title: titleOf(conversation),
    created: new Date(conversation.created).toISOString(),
    model,
    settings,
  };
  if (conversation.mode === "text") return { ...about, text: conversation.text };
  const messages = branch(conversation).map((message) => {
    const { role, reasoning } = message;
    const content = contentOf(message);
    return reasoning ? { role, content, reasoning_content: reasoning } : { role, content };
  });
  const system = conversation.system.trim();
  return { ...about, messages: system ? [{ role: "system", content: system }, ...messages] : messages };
}
