// Markdown as models write it: paragraphs, headings, lists, quotes, tables and code. inline.js explains how untrusted
// text is handled.

import { copyButton, element } from "./dom.js";
import { endOfFormula } from "./formulas.js";
import { inline } from "./inline.js";

const MAX_DEPTH = 8;

const FENCE = /^ {0,3}(`{3,}|~{3,})[ \t]*([\w+#.-]{0,40})/;
const HEADING = /^ {0,3}(#{1,6})[ \t]+(.*)$/;
const RULE = /^ {0,3}([-*_])(?:[ \t]*\1){2,}[ \t]*$/;
const QUOTE = /^ {0,3}>[ \t]?/;
const ITEM = /^( {0,12})([-*+]|\d{1,9}[.)])([ \t]+|$)/;

const isBlank = (line) => line.trim() === "";
const indentOf = (line) => line.length - line.trimStart().length;

// Returns whether the line separates a table's header from its rows: "| --- | :-: |".
function isDelimiterRow(line) {
  if (!line.includes("|") || indentOf(line) > 3) return false;
  const row = line.trim().replace(/^\|/, "").replace(/\|$/, "");
  return row.split("|").every((cell) => /^:?-+:?$/.test(cell.trim()));
}

function isTable(lines, at) {
  return lines[at].includes("|") && isDelimiterRow(lines[at + 1] ?? "");
}

// Returns whether the line ends the paragraph above it.
function interrupts(lines, at) {
  const line = lines[at];
  if (isBlank(line) || FENCE.test(line) || HEADING.test(line) || RULE.test(line) || QUOTE.test(line)) return true;
  if (endOfFormula(lines, at) > 0) return true;
  const item = ITEM.exec(line);
  return (item !== null && item[3] !== "" && (!/\d/.test(item[2]) || /^1[.)]/.test(item[2]))) || isTable(lines, at);
}

function endOfFence(lines, at) {
  const mark = FENCE.exec(lines[at].trimStart())[1];
  for (let i = at + 1; i < lines.length; ++i) {
    const line = lines[i].trim();
    if (line.length >= mark.length && line === mark[0].repeat(line.length)) return i + 1;
  }
  return lines.length;
}

function endOfItem(lines, at) {
  const content = indentOf(lines[at]) + 2;
  let end = at + 1;
  for (let i = end; i < lines.length; ++i) {
    if (isBlank(lines[i])) continue;
    const lazy = i === end && !interrupts(lines, i) && !ITEM.test(lines[i]);
    if (indentOf(lines[i]) < content && !lazy) break;
    if (indentOf(lines[i]) >= content && FENCE.test(lines[i].slice(content))) {
      end = endOfFence(lines, i);
      i = end - 1;
    } else {
      end = i + 1;
    }
  }
  return end;
}

function endOfList(lines, at) {
  const first = ITEM.exec(lines[at]);
  const ordered = /\d/.test(first[2]);
  let end = at;
  for (let i = at; i < lines.length;) {
    if (isBlank(lines[i])) {
      ++i;
      continue;
    }
    const item = ITEM.exec(lines[i]);
    if (!item || /\d/.test(item[2]) !== ordered || RULE.test(lines[i]) || item[1].length > first[1].length + 1) break;
    i = end = endOfItem(lines, i);
  }
  return Math.max(end, at + 1);
}

function endWhile(lines, at, belongs) {
  let end = at + 1;
  while (end < lines.length && belongs(end)) ++end;
  return end;
}

// Returns [kind, end] of the block that begins at line `at`.
function blockAt(lines, at) {
  const line = lines[at];
  if (FENCE.test(line)) return ["code", endOfFence(lines, at)];
  const afterFormula = endOfFormula(lines, at);
  if (afterFormula > 0) return ["paragraph", afterFormula];
  if (HEADING.test(line)) return ["heading", at + 1];
  if (RULE.test(line)) return ["rule", at + 1];
  if (QUOTE.test(line)) return ["quote", endWhile(lines, at, (i) => QUOTE.test(lines[i]))];
  if (ITEM.test(line)) return ["list", endOfList(lines, at)];
  if (isTable(lines, at)) return ["table", endWhile(lines, at + 1, (i) => lines[i].includes("|"))];
  return ["paragraph", endWhile(lines, at, (i) => !interrupts(lines, i))];
}

function blocks(lines) {
  const found = [];
  for (let at = 0, before = 0; at < lines.length;) {
    if (isBlank(lines[at])) {
      ++at;
      continue;
    }
    const [kind, end] = blockAt(lines, at);
    found.push({ kind, lines: lines.slice(at, end), isApart: at > before });
    at = before = end;
  }
  return found;
}

function renderCode(lines) {
  const [, mark, language] = FENCE.exec(lines[0]);
  const last = lines[lines.length - 1].trim();
  const closed = lines.length > 1 && last.length >= mark.length && last === mark[0].repeat(last.length);
  const text = lines.slice(1, closed ? -1 : undefined).join("\n");
  return element(
    "figure",
    { class: "code" },
    element(
      "figcaption",
      {},
      element("span", {}, language || "text"),
      copyButton(() => text, "Copy code"),
    ),
    element("pre", { tabindex: "0" }, element("code", {}, text)),
  );
}

function renderHeading([line]) {
  const [, marks, rest] = HEADING.exec(line);
  const text = rest.trim().replace(/^#+$|[ \t]#+$/, "");
  // The page has its own headings, so the headings of an answer start two levels lower.
  return element(`h${Math.min(marks.length + 2, 6)}`, {}, ...inline(text));
}

function renderList(lines, depth) {
  const ordered = /\d/.test(ITEM.exec(lines[0])[2]);
  const list = element(ordered ? "ol" : "ul", ordered ? { start: parseInt(lines[0].trim(), 10) } : {});
  for (let at = 0; at < lines.length;) {
    if (isBlank(lines[at])) {
      ++at;
      continue;
    }
    const end = endOfItem(lines, at);
    list.append(renderItem(lines.slice(at, end), depth));
    at = end;
  }
  return list;
}

function renderItem(lines, depth) {
  const [marker] = ITEM.exec(lines[0]);
  const rest = lines.slice(1).map((line) => line.slice(Math.min(indentOf(line), marker.length)));
  const body = [lines[0].slice(marker.length), ...rest];
  const item = element("li");
  const task = /^\[([ xX])\] /.exec(body[0]);
  if (task) {
    body[0] = body[0].slice(4);
    item.className = "task";
    const done = task[1] !== " ";
    item.append(
      element("span", { class: "check", role: "img", "aria-label": done ? "done" : "open" }, done ? "☑" : "☐"),
    );
  }
  const parts = blocks(body);
  // If an item has no blank lines between its parts, its paragraphs get no extra space.
  const tight = !parts.some(({ isApart }) => isApart);
  for (const part of parts) {
    if (tight && part.kind === "paragraph") item.append(...inline(joined(part.lines)));
    else item.append(render(part, depth + 1));
  }
  return item;
}

// Returns the cells of a row. Neither `\|` nor a bar in code separates cells.
function cells(line) {
  const found = [""];
  let code = false;
  const row = line.trim().replace(/^\|/, "");
  for (let i = 0; i < row.length; ++i) {
    if (row[i] === "\\" && row[i + 1] === "|") found[found.length - 1] += row[++i];
    else if (row[i] === "|" && !code) found.push("");
    else {
      if (row[i] === "`") code = !code;
      found[found.length - 1] += row[i];
    }
  }
  if (found.length > 1 && found[found.length - 1].trim() === "") found.pop();
  return found.map((cell) => cell.trim());
}

function renderTable([head, delimiters, ...rows]) {
  const columns = cells(head);
  const sides = cells(delimiters).map((cell) =>
    cell.endsWith(":") ? (cell.startsWith(":") ? "center" : "right") : "left",
  );
  // One wide cell replaces all missing cells, because many columns times many short rows would be too many nodes.
  const row = (kind, texts) => {
    const shown = texts.slice(0, columns.length);
    const missing = columns.length - shown.length;
    return element(
      "tr",
      {},
      ...shown.map((text, i) => element(kind, { class: sides[i] ?? "left" }, ...inline(text))),
      missing > 0 ? element(kind, { colspan: missing }) : null,
    );
  };
  const table = element(
    "table",
    {},
    element("thead", {}, row("th", columns)),
    element("tbody", {}, ...rows.map((line) => row("td", cells(line)))),
  );
  return element("div", { class: "table", tabindex: "0", role: "region", "aria-label": "Table" }, table);
}

const joined = (lines) => lines.map((line) => line.trim()).join("\n");

function render({ kind, lines }, depth = 0) {
  if (depth > MAX_DEPTH) return element("p", {}, lines.join("\n"));
  switch (kind) {
    case "code":
      return renderCode(lines);
    case "heading":
      return renderHeading(lines);
    case "rule":
      return element("hr");
    case "quote": {
      const inside = blocks(lines.map((line) => line.replace(QUOTE, "")));
      return element("blockquote", {}, ...inside.map((block) => render(block, depth + 1)));
    }
    case "list":
      return renderList(lines, depth);
    case "table":
      return renderTable(lines);
    default:
      return element("p", {}, ...inline(joined(lines)));
  }
}

// Splits a text into lines, and replaces tabs in the indentation by spaces, except in code.
function linesOf(text) {
  let fence = "";
  return text.split(/\r?\n/).map((line) => {
    const mark = FENCE.exec(line.trimStart())?.[1];
    if (fence && mark?.startsWith(fence)) fence = "";
    else if (!fence) fence = mark ?? "";
    return fence && !mark ? line : line.replace(/^[ \t]+/, (space) => space.replaceAll("\t", "    "));
  });
}

// Shows a growing text. Unchanged blocks keep their nodes, so the reader's selection survives.
export class MarkdownView {
  constructor(container) {
    this.container = container;
    this.shown = [];
  }

  update(text) {
    const found = blocks(linesOf(text));
    const sources = found.map((block) => block.lines.join("\n"));
    let same = 0;
    while (same < sources.length && sources[same] === this.shown[same]) ++same;
    while (this.container.childNodes.length > same) this.container.lastChild.remove();
    this.container.append(...found.slice(same).map((block) => render(block)));
    this.shown = sources;
  }
}
