// Merges the changes of two tabs to one conversation. Both tabs started from `base`; `mine` is this tab's version, and
// `theirs` is the other tab's.

import { lastBelow } from "./conversation.js";
import { repairTree } from "./stored.js";

const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);

// Returns the part of `base` that `text` has replaced: {start, end, text}.
function changeOf(base, text) {
  const shorter = Math.min(base.length, text.length);
  let start = 0;
  while (start < shorter && base[start] === text[start]) ++start;
  let kept = 0; // unchanged characters at the end
  while (kept < shorter - start && base.at(-1 - kept) === text.at(-1 - kept)) ++kept;
  return { start, end: base.length - kept, text: text.slice(start, text.length - kept) };
}

// Returns the text with both changes. If both tabs have changed the same part, the result contains both replacements.
export function mergeTexts(base, mine, theirs) {
  if (mine === base || mine === theirs) return theirs;
  if (theirs === base) return mine;
  const changes = [changeOf(base, theirs), changeOf(base, mine)];
  const [first, second] = changes.sort((a, b) => a.start - b.start);
  const between = base.slice(first.end, Math.max(first.end, second.start));
  return base.slice(0, first.start) + first.text + between + second.text + base.slice(Math.max(first.end, second.end));
}

function replaceMembers(object, members) {
  for (const name of Object.keys(object)) if (!Object.hasOwn(members, name)) delete object[name];
  Object.assign(object, members);
}

// Returns whether a tab lacks the message or has only its beginning. A complete answer becomes partial again when it is
// continued, with more parts.
const isBehind = (theirs, mine) =>
  theirs === undefined || (theirs.partial === true && !mine.partial && (theirs.parts ?? 0) <= (mine.parts ?? 0));

// Returns the messages of both tabs. Only one tab changes a message: the tab that receives it.
function mergeMessages(base, mine, theirs) {
  const messages = {};
  for (const [id, message] of Object.entries(theirs)) {
    messages[id] = mine[id] ?? message;
    if (mine[id] && same(mine[id], base[id]) && !isBehind(message, mine[id])) replaceMembers(mine[id], message);
  }
  const both = { ...messages, ...mine };
  repairTree(both);
  return both;
}

// Changes `mine` but keeps its message objects, because views and answers refer to them. `isRunning`: this tab is
// receiving an answer and continues to show it. Otherwise it shows the messages that the other tab has added to the
// branch. Returns whether `theirs` lacks a message or its end.
export function merge(mine, base, theirs, isRunning) {
  const lacks = Object.values(mine.messages).some((message) => isBehind(theirs.messages[message.id], message));
  const names = new Set([...Object.keys(mine), ...Object.keys(theirs)]);
  for (const name of ["id", "messages", "leaf", "updated", "text"]) names.delete(name);
  for (const name of names) {
    if (!same(mine[name], base[name])) continue;
    if (theirs[name] === undefined) delete mine[name];
    else mine[name] = theirs[name];
  }
  mine.text = mergeTexts(base.text, mine.text, theirs.text);
  mine.updated = Math.max(mine.updated, theirs.updated);
  mine.messages = mergeMessages(base.messages, mine.messages, theirs.messages);
  if (!isRunning) mine.leaf = lastBelow(mine.messages, mine.leaf);
  return lacks;
}
