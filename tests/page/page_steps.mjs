// Steps of the tests on the page, and expressions to wait for.

export const ANSWER = `[...document.querySelectorAll(".message.assistant")].at(-1)`;
export const words = `${ANSWER}?.querySelector(".words").innerText.trim()`;
export const idle = `document.querySelector("#send")?.getAttribute("aria-label") === "Send"`;
export const done = `${ANSWER} && ${idle} && !${ANSWER}.classList.contains("running")`;
export const count = (selector) => `document.querySelectorAll(${JSON.stringify(selector)}).length`;
export const textOf = (selector) => `document.querySelector(${JSON.stringify(selector)}).textContent`;
export const ready = `${textOf("#model")} !== ""`;

export async function ask(page, text) {
  await page.until(ready, "the model's name");
  await page.type("#composer-text", text);
  await page.press("Enter");
}

export async function limitTokens(page, tokens) {
  await page.click("#open-settings");
  await page.type("#setting-max_tokens", String(tokens));
  await page.press("Escape");
}
