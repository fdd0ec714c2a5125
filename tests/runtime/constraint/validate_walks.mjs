// Validates the lines of `walks` with ajv, and the demo model's texts for twenty of the schemas: node
// validate_walks.mjs TP-INFER WALKS TOKENIZER SCHEMAS.json SEEDS
import { createRequire } from "node:module";
import { spawnSync } from "node:child_process";
import path from "node:path";

const modules = process.env.TP_NODE_MODULES;
const require = createRequire(modules ? path.join(modules, "x.js") : import.meta.url);
let Ajv, addFormats;
try {
  Ajv = require("ajv/dist/2020").default;
  addFormats = require("ajv-formats").default;
} catch {
  console.log("skipped: npm install ajv ajv-formats, and name the folder node_modules in TP_NODE_MODULES");
  process.exit(77);
}

const linesOf = (program, args, input) => {
  const run = spawnSync(program, args, { encoding: "utf8", maxBuffer: 1 << 30, input });
  if (run.status !== 0) {
    console.error(run.stderr);
    process.exit(1);
  }
  return run.stdout.split("\n").filter(Boolean).map((line) => JSON.parse(line));
};

// The model draws each text. A text that max_tokens cuts off doesn't count.
const drawnByModel = (program, schemas) => {
  const count = 20;
  const chosen = Array.from({ length: count }, (_, i) => schemas[Math.floor((i * schemas.length) / count)]);
  const requests = chosen.map((schema, i) =>
    ({ id: i, prompt: "Here it is:", json_schema: schema, seed: i, temperature: 1, max_tokens: 400 }));
  const input = requests.map((request) => JSON.stringify(request) + "\n").join("");
  const lines = linesOf(program, ["generate", "--batch", "-"], input);
  const texts = lines.filter((line) => line.finish_reason === "stop").map((line) => ({ schema: chosen[line.id], texts: [line.text] }));
  console.log(`${texts.length} of ${count} texts by the model`);
  if (texts.length < count / 2) process.exit(1);
  return texts;
};

const [model, program, ...args] = process.argv.slice(2);
const walked = linesOf(program, args);
let schemas = 0, texts = 0, wrong = 0;
for (const { schema, texts: walks } of [...walked, ...drawnByModel(model, walked.map(({ schema }) => schema))]) {
  const ajv = new Ajv({ strict: false, allErrors: true });
  addFormats(ajv);
  const validate = ajv.compile(schema);
  schemas += 1;
  for (const text of walks) {
    texts += 1;
    let problem = null;
    try {
      if (!validate(JSON.parse(text))) problem = JSON.stringify(validate.errors.slice(0, 2));
    } catch (error) {
      problem = String(error);
    }
    if (problem !== null && ++wrong <= 20) console.error(`${JSON.stringify(schema)}\n  ${text}\n  ${problem}`);
  }
}
console.log(`${schemas} schemas, ${texts} texts, ${wrong} invalid`);
process.exit(wrong === 0 && schemas >= 300 ? 0 : 1);
