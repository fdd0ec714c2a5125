// The formulas of the tests.

import { readFileSync } from "node:fs";
import * as symbols from "../../runtime/serve/page/tex_symbols.js";

const GUIDE = new URL("../../runtime/serve/page/README.md", import.meta.url);
export const FIXTURE = new URL("../data/page/formulas.json", import.meta.url);

// The inputs that the guide of the page lists.
export function listedFormulas() {
  const [, list] = /^## Formulas$[^]*?^```text$\n([^]*?)^```$/m.exec(readFileSync(GUIDE, "utf8"));
  return list.trimEnd().split("\n");
}

export function symbolNames() {
  const { LETTERS, UPRIGHT, OPERATORS, LARGE, INTEGRALS, FENCES } = symbols;
  return [LETTERS, UPRIGHT, OPERATORS, LARGE, INTEGRALS, FENCES].flatMap((table) => [...table.keys()]);
}
