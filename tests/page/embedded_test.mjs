#!/usr/bin/env node
// The page as the server has it: embedded by runtime/serve/embed_page.cmake.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

const SERVE = fileURLToPath(new URL("../../runtime/serve/", import.meta.url));
const PAGE = join(SERVE, "page");
const MOST_BYTES = 60 * 1024; // the sum of all files, each compressed alone
const folder = mkdtempSync(join(tmpdir(), "tp-page-"));
process.on("exit", () => rmSync(folder, { recursive: true }));

function embed() {
  const names = readdirSync(PAGE).filter((name) => /\.(html|css|js|svg)$/.test(name));
  const output = join(folder, "page_files.h");
  const values = { FOLDER: PAGE, FILES: names.join(","), OUTPUT: output };
  const flags = Object.entries(values).flatMap(([name, value]) => ["-D", `${name}=${value}`]);
  const cmake = spawnSync(process.env.TP_CMAKE ?? "cmake", [...flags, "-P", join(SERVE, "embed_page.cmake")]);
  assert.equal(cmake.status, 0, String(cmake.stderr));
  const files = readFileSync(output, "utf8").matchAll(/\{"\/([^"]*)", "[^"]*", R"tp_page\(([^]*?)\)tp_page"\}/g);
  const found = new Map([...files].map(([, name, content]) => [name, content]));
  assert.deepEqual([...found.keys()], names);
  return found;
}

const files = embed();

test("the page is small", () => {
  const bytes = [...files.values()].reduce((sum, content) => sum + gzipSync(content, { level: 9 }).length, 0);
  assert.ok(bytes <= MOST_BYTES, `${bytes} bytes`);
});

test("only comments are left out", () => {
  for (const [name, content] of files) {
    const source = readFileSync(join(PAGE, name), "utf8");
    if (!name.endsWith(".js")) {
      assert.equal(content, source, name);
      continue;
    }
    const lines = `\n${source}`.split("\n");
    const kept = content.split("\n");
    assert.equal(kept.length, lines.length, name);
    lines.forEach((line, i) => assert.equal(kept[i], /^ *\/\//.test(line) ? "" : line, `${name}:${i}`));
    const copy = join(folder, name.replace(/\.js$/, ".mjs"));
    writeFileSync(copy, content);
    const check = spawnSync(process.execPath, ["--check", copy]);
    assert.equal(check.status, 0, String(check.stderr));
  }
});
