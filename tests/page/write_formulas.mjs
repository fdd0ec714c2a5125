#!/usr/bin/env node
// Writes tests/data/page/formulas.json: what KaTeX makes of the inputs that the guide of the page lists, and of each symbol.
//
//   npm install --prefix DIR katex && TP_NODE_MODULES=DIR/node_modules node tests/page/write_formulas.mjs

import { readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { FIXTURE, listedFormulas, symbolNames } from "./listed_formulas.mjs";
import { outline } from "./outline.mjs";

const folder = resolve(process.env.TP_NODE_MODULES, "katex");
const { default: katex } = await import(pathToFileURL(join(folder, "dist/katex.mjs")));
const { version } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));

const ENTITIES = { "&lt;": "<", "&gt;": ">", "&amp;": "&", "&quot;": '"', "&#x27;": "'" };
const PART = /<(\/?)([a-z]+)((?:\s+[\w:-]+="[^"]*")*)\s*(\/?)>|([^<]+)/g;

// The tree of <math> in KaTeX's output.
function parse(xml) {
  const root = { tag: "root", attributes: {}, children: [] };
  const open = [root];
  for (const [, end, tag, attributes, isEmpty, text] of xml.matchAll(PART)) {
    if (text !== undefined) open.at(-1).children.push(text.replace(/&[#\w]+;/g, (entity) => ENTITIES[entity]));
    else if (end) open.pop();
    else {
      const pairs = [...attributes.matchAll(/([\w:-]+)="([^"]*)"/g)].map(([, name, value]) => [name, value]);
      const node = { tag, attributes: Object.fromEntries(pairs), children: [] };
      open.at(-1).children.push(node);
      if (!isEmpty) open.push(node);
    }
  }
  const find = (node) =>
    node.tag === "math"
      ? node
      : node.children
          .filter(({ tag }) => tag)
          .map(find)
          .find(Boolean);
  return find(root);
}

function outlineOf(tex) {
  const xml = katex.renderToString(tex, { output: "mathml", displayMode: true, strict: false });
  return outline(parse(xml));
}

// KaTeX's MathML of a few macros is broken.
const isBroken = ([, text]) => text.includes("o b j e c t");

const outlinesOf = (list) =>
  Object.fromEntries(list.map((tex) => [tex, outlineOf(tex)]).filter((pair) => !isBroken(pair)));
const fixture = {
  source: `KaTeX ${version}`,
  outlines: outlinesOf(listedFormulas()),
  symbols: outlinesOf(symbolNames().map((name) => `\\${name}`)),
};
writeFileSync(FIXTURE, `${JSON.stringify(fixture, null, 2)}\n`);
