// The structure of a formula in MathML, without what is a matter of taste: spaces, groups, styles, and which of several similar
// characters stands for a bar or an arrow above a letter.

import { inFont } from "../../runtime/serve/page/tex_symbols.js";

const LEAVES = new Set(["mi", "mn", "mo", "mtext"]);
const LEFT_OUT = new Set(["mspace", "annotation"]);
const UNWRAPPED = new Set(["math", "semantics", "mrow", "mstyle", "mpadded"]);
const FONTS = {
  "double-struck": "bb",
  bold: "bf",
  "bold-italic": "boldsymbol",
  script: "cal",
  fraktur: "frak",
  "sans-serif": "sf",
  monospace: "tt",
};

function textOf({ attributes, children }) {
  const characters = [...children.join("")];
  const styled = characters.map((character) => inFont(character, FONTS[attributes.mathvariant]));
  return styled
    .join("")
    .replace(/[\u2061-\u2063\u200b]/g, "")
    .replaceAll("∣", "|")
    .replaceAll("∥", "‖")
    .replaceAll("\u20d7", "→")
    .replace(/[\s\u00a0]+/g, " ")
    .trim();
}

function parts(node) {
  if (LEFT_OUT.has(node.tag)) return [];
  if (LEAVES.has(node.tag)) return [...textOf(node)].filter((character) => character !== " ");
  const inside = node.children.map(parts);
  return UNWRAPPED.has(node.tag) ? inside.flat() : [`${node.tag}(${inside.map((part) => part.join(" ")).join("; ")})`];
}

// "mfrac(a; b) + 1" for a tree of {tag, attributes, children}.
export const outline = (node) => parts(node).join(" ");
