#!/usr/bin/env node
// Drives the page of the server in a headless Chromium.
//
//   node tests/page/page_test.mjs [--url http://localhost:8080] [--screenshots DIR] [--only WORD]
//
// Without --url it starts mock_server.mjs, and also tests what only a mock says. Status 77: something is missing.

import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { mkdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { Browser } from "./browser.mjs";
import { cases } from "./page_cases.mjs";

const { values: options } = parseArgs({
  options: { url: { type: "string" }, screenshots: { type: "string" }, only: { type: "string", default: "" } },
});

function chromium() {
  const names = [process.env.CHROMIUM, "chromium", "chromium-browser", "google-chrome"];
  const found = names.find((name) => name && spawnSync(name, ["--version"]).status === 0);
  if (found) return found;
  console.log("skipped: chromium is not installed (apt-get install chromium)");
  process.exit(77);
}

const MOCK = fileURLToPath(new URL("mock_server.mjs", import.meta.url));

// Starts a mock; {url, stop}.
function startMock(...flags) {
  const child = spawn(process.execPath, [MOCK, ...flags], { stdio: ["ignore", "pipe", "inherit"] });
  return new Promise((resolve, reject) => {
    child.on("exit", () => reject(new Error("the mock server has ended")));
    child.stdout.once("data", (line) => {
      const ended = new Promise((done) => child.on("exit", done));
      resolve({ url: String(line).trim(), stop: () => (child.kill("SIGKILL"), ended) });
    });
  });
}

const browser = new Browser(chromium());
if (options.screenshots) mkdirSync(options.screenshots, { recursive: true });
let failures = 0;
for (const [name, run, mockFlags] of cases) {
  if (!name.includes(options.only)) continue;
  if (options.url && mockFlags) {
    console.log(`- ${name} (only with the mock server)`);
    continue;
  }
  const mock = options.url ? null : await startMock(...(mockFlags ?? []));
  const page = await browser.newPage();
  const shot = async (file) => options.screenshots && page.screenshot(`${options.screenshots}/${file}.png`);
  try {
    await page.size(1280, 840);
    await page.scheme("light");
    await page.open(options.url ?? mock.url);
    await run({ page, mock, shot, url: options.url ?? mock.url });
    assert.deepEqual(page.problems, [], "the page has no errors");
    const { origin } = new URL(options.url ?? mock.url);
    const foreign = page.requests.filter(
      (address) => /^[a-z]*:\/\//.test(address) && new URL(address).origin !== origin,
    );
    assert.deepEqual(foreign, [], "the page loads nothing from elsewhere");
    console.log(`ok ${name}`);
  } catch (error) {
    failures += 1;
    console.log(`FAILED ${name}\n  ${error.message}`);
    await shot(`failed-${name.replaceAll(" ", "-")}`);
  }
  await page.close();
  await mock?.stop();
}
await browser.close();
process.exit(failures > 0 ? 1 : 0);
