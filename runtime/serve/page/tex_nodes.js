// The elements of a formula in MathML, and how those of a row go together.

import { CLOSING, OPENING, inFont } from "./tex_symbols.js";

const SIGNS = new Set("+−±∓");
const NO_OPERANDS = new Set("!?.…⋯⋮⋱"); // no operand follows
const THIN = { width: "0.17em" };

// `role` is "open", "close", "operator", "name" (of a function), or none for anything else.
export const node = (tag, attributes, ...children) => ({ tag, attributes, children });
export const leaf = (tag, text, attributes = {}, role = undefined) => ({ ...node(tag, attributes, text), role });
export const space = (width) => node("mspace", { width: `${width}em` });
export const upright = (text) => leaf("mi", text, [...text].length === 1 ? { mathvariant: "normal" } : {});
export const operator = (text) => leaf("mo", text, {}, NO_OPERANDS.has(text) ? undefined : "operator");

export function fence(text, attributes = { stretchy: "false" }) {
  const role = OPENING.has(text) ? "open" : CLOSING.has(text) ? "close" : "bar";
  return leaf("mo", text, role === "bar" ? { ...attributes, lspace: "0", rspace: "0" } : attributes, role);
}

export const stretched = (text, form) =>
  leaf("mo", text, { form, stretchy: "true" }, form === "prefix" ? "open" : "close");

// The name of a function. In MathML a name with limits is an operator.
export function functionName(text, hasLimits) {
  if (!hasLimits) return { ...upright(text), role: "name" };
  return { ...leaf("mo", text, { movablelimits: "true", lspace: "0", rspace: "0" }, "name"), hasLimits };
}

// A sign after nothing, or after an operator, belongs to what follows. Bars open and close alternately.
function completeSigns(atoms) {
  let isOpen = false;
  let before = "open";
  for (const atom of atoms) {
    if (atom.role === "bar") {
      isOpen = !isOpen;
      before = isOpen ? "open" : "close";
      continue;
    }
    const isPrefix = before === "open" || before === "operator";
    if (isPrefix && atom.tag === "mo" && SIGNS.has(atom.children[0])) atom.attributes.form = "prefix";
    before = atom.role;
  }
}

// The parts of a row as one element. Names of functions are set apart from what is beside them.
export function group(atoms) {
  completeSigns(atoms);
  const children = [];
  atoms.forEach((atom, i) => {
    const next = atoms[i + 1];
    children.push(atom);
    if (!next || next.tag === "mspace" || atom.tag === "mspace") return;
    const beforeName = next.role === "name" && !["open", "operator", "bar"].includes(atom.role);
    const afterName = atom.role === "name" && !["open", "close", "operator"].includes(next.role);
    if (beforeName || afterName) children.push(node("mspace", THIN));
  });
  return children.length === 1 ? children[0] : node("mrow", {}, ...children);
}

export function restyled(part, font) {
  if (part.tag === "mtext") return part;
  if (part.tag !== "mi" && part.tag !== "mn") {
    return { ...part, children: part.children.map((child) => (child.tag ? restyled(child, font) : child)) };
  }
  const [text] = part.children;
  if (font === "it") return leaf(part.tag, text);
  if (font === "rm") return part.tag === "mi" ? upright(text) : part;
  return leaf(part.tag, [...text].map((character) => inFont(character, font)).join(""));
}

// Letters in a row are one word, such as the name of a function.
export function word(part) {
  const isWord = part.tag === "mrow" && part.children.every(({ tag }) => tag === "mi" || tag === "mn");
  return isWord && part.children.length > 0
    ? leaf("mi", part.children.map(({ children }) => children[0]).join(""))
    : part;
}
