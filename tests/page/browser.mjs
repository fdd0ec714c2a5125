// A headless Chromium driven through the DevTools protocol over a pipe. Needs only Node.

import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const PATIENCE = 60000; // ms that a condition may take to come true; a limit for failures, not an expectation

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

export class Browser {
  constructor(program) {
    this.profile = mkdtempSync(join(tmpdir(), "tp-page-"));
    const flags = [
      "--headless=new",
      "--no-sandbox", // root has none, and the pages are ours
      "--remote-debugging-pipe",
      "--disable-gpu",
      "--disable-dev-shm-usage",
      "--disable-extensions",
      "--disable-background-networking",
      "--no-first-run",
      "--hide-scrollbars",
      `--user-data-dir=${this.profile}`,
    ];
    this.child = spawn(program, flags, { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] });
    this.calls = new Map();
    this.pages = new Map(); // by session
    this.lastId = 0;
    let rest = "";
    this.child.stdio[4].on("data", (data) => {
      const messages = (rest + data).split("\0");
      rest = messages.pop();
      for (const message of messages) this.take(JSON.parse(message));
    });
    this.child.on("exit", () => {
      for (const { reject } of this.calls.values()) reject(new Error("Chromium has ended"));
    });
  }

  take({ id, result, error, method, params, sessionId }) {
    if (!id) return this.pages.get(sessionId)?.see(method, params);
    const call = this.calls.get(id);
    this.calls.delete(id);
    if (error) call.reject(new Error(`${call.method}: ${error.message}`));
    else call.resolve(result);
  }

  call(method, params = {}, sessionId = undefined) {
    const id = ++this.lastId;
    this.child.stdio[3].write(`${JSON.stringify({ id, method, params, sessionId })}\0`);
    return new Promise((resolve, reject) => this.calls.set(id, { method, resolve, reject }));
  }

  // Opens a page with its own storage.
  async newPage() {
    const { browserContextId } = await this.call("Target.createBrowserContext");
    await this.call("Browser.setDownloadBehavior", { behavior: "deny", browserContextId });
    return this.newTab(browserContextId);
  }

  async newTab(browserContextId) {
    const { targetId } = await this.call("Target.createTarget", { url: "about:blank", browserContextId });
    const { sessionId } = await this.call("Target.attachToTarget", { targetId, flatten: true });
    const page = new Page(this, browserContextId, sessionId);
    this.pages.set(sessionId, page);
    for (const domain of ["Page", "Runtime", "Log", "Network"]) await page.call(`${domain}.enable`);
    return page;
  }

  async close() {
    const ended = new Promise((resolve) => this.child.on("close", resolve));
    this.calls.clear();
    this.call("Browser.close").catch(() => {});
    await ended;
    try {
      rmSync(this.profile, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 });
    } catch {
      // A process of Chromium may still be writing. The folder is temporary.
    }
  }
}

class Page {
  constructor(browser, context, session) {
    this.browser = browser;
    this.context = context;
    this.session = session;
    this.problems = []; // exceptions and rejected contents
    this.requests = []; // URLs
  }

  see(method, params) {
    if (method === "Runtime.exceptionThrown") {
      const { exception, text } = params.exceptionDetails;
      this.problems.push(exception?.description ?? text);
    } else if (method === "Log.entryAdded" && params.entry.source === "security") {
      this.problems.push(params.entry.text);
    } else if (method === "Network.requestWillBeSent") {
      this.requests.push(params.request.url);
    }
  }

  call(method, params) {
    return this.browser.call(method, params, this.session);
  }

  // Opens another page with this page's storage, at the same address.
  async secondTab() {
    const tab = await this.browser.newTab(this.context);
    await tab.open(await this.evaluate("location.href"));
    return tab;
  }

  close() {
    return this.browser.call("Target.disposeBrowserContext", { browserContextId: this.context });
  }

  // Returns the value of a JavaScript expression in the page. Awaits promises.
  async evaluate(expression) {
    const { result, exceptionDetails } = await this.call("Runtime.evaluate", {
      expression,
      awaitPromise: true,
      returnByValue: true,
    });
    if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
    return result.value;
  }

  // Waits until the expression is true.
  async until(expression, what = expression) {
    const end = Date.now() + PATIENCE;
    while (!(await this.evaluate(`Boolean(${expression})`))) {
      if (Date.now() > end)
        throw new Error(
          `expected ${what}; the page shows: ${await this.evaluate("document.body.innerText.slice(0, 800)")}`,
        );
      await sleep(25);
    }
  }

  async open(url) {
    await this.call("Page.navigate", { url });
    await this.until(`document.readyState === "complete" && location.href !== "about:blank"`);
  }

  async reload() {
    await this.evaluate("window.beforeReload = true");
    await this.call("Page.reload");
    await this.until(`document.readyState === "complete" && !window.beforeReload`, "the page to be loaded anew");
  }

  async click(selector) {
    await this.until(`document.querySelector(${JSON.stringify(selector)})`, `an element ${selector}`);
    await this.evaluate(`{
      const node = document.querySelector(${JSON.stringify(selector)});
      node.focus();
      node.click();
    }`);
  }

  async type(selector, text) {
    await this.evaluate(`document.querySelector(${JSON.stringify(selector)}).focus()`);
    await this.call("Input.insertText", { text });
  }

  async press(key, modifiers = 0) {
    const codes = { Enter: 13, Escape: 27, Tab: 9 };
    const event = {
      key,
      code: key,
      windowsVirtualKeyCode: codes[key],
      modifiers,
      text: key === "Enter" ? "\r" : undefined,
    };
    await this.call("Input.dispatchKeyEvent", { type: "keyDown", ...event });
    await this.call("Input.dispatchKeyEvent", { type: "keyUp", ...event, text: undefined });
  }

  async size(width, height, scale = 1) {
    await this.call("Emulation.setDeviceMetricsOverride", {
      width,
      height,
      deviceScaleFactor: scale,
      mobile: width < 500,
    });
  }

  async scheme(value) {
    await this.call("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value }] });
  }

  async offline(isOffline) {
    const rates = { latency: 0, downloadThroughput: -1, uploadThroughput: -1 };
    await this.call("Network.emulateNetworkConditions", { offline: isOffline, ...rates });
  }

  async screenshot(file) {
    await this.until("document.getAnimations().length === 0");
    const { data } = await this.call("Page.captureScreenshot", { format: "png" });
    writeFileSync(file, Buffer.from(data, "base64"));
  }
}
