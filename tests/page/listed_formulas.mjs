import { readFileSync } from "node:fs";

const GUIDE = new URL("../../runtime/serve/page/README.md", import.meta.url);
export const FIXTURE = new URL("../data/page/formulas.json", import.meta.url);

// The inputs that the guide of the page lists.
export function listedFormulas() {
  const [, list] = /^## Formulas$[^]*?^```text$\n([^]*?)^```$/m.exec(readFileSync(GUIDE, "utf8"));
  return list.trimEnd().split("\n");
}
