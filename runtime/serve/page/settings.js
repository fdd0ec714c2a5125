// The settings of sampling. Empty fields are not sent, so the server's defaults apply.

import { element } from "./dom.js";
import { readChoice, writeChoice } from "./store.js";

const NUMBERS = [
  { name: "temperature", label: "Temperature", min: 0, max: 2, step: 0.05, hint: "0 always takes the likeliest token" },
  { name: "max_tokens", label: "Max tokens", min: 1, step: 1, hint: "of an answer" },
  {
    name: "top_p",
    label: "Top p",
    min: 0,
    max: 1,
    step: 0.01,
    hint: "likeliest tokens that together have this probability",
  },
  { name: "top_k", label: "Top k", min: 0, step: 1, hint: "this many likeliest tokens" },
  { name: "min_p", label: "Min p", min: 0, max: 1, step: 0.01, hint: "of the likeliest token's probability" },
  { name: "seed", label: "Seed", min: 0, step: 1, hint: "the same seed gives the same answer" },
  { name: "repetition_penalty", label: "Repetition penalty", min: 0.01, step: 0.05, hint: "1 is none" },
  {
    name: "presence_penalty",
    label: "Presence penalty",
    min: -2,
    max: 2,
    step: 0.1,
    hint: "for tokens that have occurred",
  },
  {
    name: "frequency_penalty",
    label: "Frequency penalty",
    min: -2,
    max: 2,
    step: 0.1,
    hint: "for each time they have",
  },
];

const FEW = 2; // number of fields that are always visible; the others are folded

let values = {};

// Reads the stored settings, because another tab may have changed them. Leaves out damaged values.
function readValues() {
  const isGood = ([name, value]) => (name === "stop" ? typeof value === "string" : Number.isFinite(value));
  values = Object.fromEntries(Object.entries(readChoice("settings", values)).filter(isGood));
}

// Returns the members of a request.
export function sampling() {
  readValues();
  const { stop = "", ...numbers } = values;
  const texts = stop.split("\n").filter((line) => line !== "");
  return texts.length > 0 ? { ...numbers, stop: texts } : { ...numbers };
}

function store(name, value) {
  readValues();
  if (value === null || value === "") delete values[name];
  else values[name] = value;
  writeChoice("settings", values);
}

function numberField({ name, label, min, max, step, hint }) {
  const id = `setting-${name}`;
  const input = element("input", {
    id,
    name,
    type: "number",
    min,
    max,
    step: "any",
    "aria-describedby": `${id}-hint`,
    placeholder: "default",
  });
  input.inputMode = "decimal";
  input.value = values[name] ?? "";
  const whole = step === 1;
  input.addEventListener("input", () => {
    const number = input.value === "" ? null : Number(input.value);
    const wrong =
      input.validity.badInput ||
      (number !== null && (number < min || number > (max ?? Infinity) || (whole && !Number.isInteger(number))));
    input.setAttribute("aria-invalid", String(wrong));
    if (!wrong) store(name, number);
  });
  // The arrow keys use a useful step size, although the field accepts any number.
  input.addEventListener("keydown", (event) => {
    const sign = { ArrowUp: 1, ArrowDown: -1 }[event.key];
    if (!sign) return;
    event.preventDefault();
    const next = (Number(input.value) || 0) + sign * step;
    input.value = Number(Math.min(Math.max(next, min), max ?? Infinity).toFixed(4));
    input.dispatchEvent(new Event("input"));
  });
  return element(
    "div",
    { class: "setting" },
    element("label", { for: id }, label),
    input,
    element("p", { id: `${id}-hint`, class: "hint" }, hint),
  );
}

function stopField() {
  const area = element("textarea", {
    id: "setting-stop",
    rows: 2,
    spellcheck: "false",
    "aria-describedby": "setting-stop-hint",
  });
  area.value = values.stop ?? "";
  area.addEventListener("input", () => store("stop", area.value));
  return element(
    "div",
    { class: "setting tall" },
    element("label", { for: "setting-stop" }, "Stop texts"),
    area,
    element("p", { id: "setting-stop-hint", class: "hint" }, "one per line; an answer ends before it"),
  );
}

// Fills the dialog. `conversation`: the conversation whose system prompt is shown; null hides the field.
export function showSettings(container, conversation, changed) {
  readValues();
  const parts = [];
  if (conversation) {
    const area = element("textarea", { id: "setting-system", rows: 4, "aria-describedby": "setting-system-hint" });
    area.value = conversation.system;
    area.addEventListener("input", () => {
      conversation.system = area.value;
      changed();
    });
    parts.push(
      element(
        "div",
        { class: "setting tall" },
        element("label", { for: "setting-system" }, "System prompt"),
        area,
        element("p", { id: "setting-system-hint", class: "hint" }, "of this conversation and of new ones"),
      ),
    );
  }
  const rest = NUMBERS.slice(FEW);
  const folded = element("details", {}, element("summary", {}, "More sampling settings"));
  folded.append(...rest.map(numberField), stopField());
  folded.open = [...rest.map(({ name }) => name), "stop"].some((name) => values[name] !== undefined);
  container.replaceChildren(...parts, ...NUMBERS.slice(0, FEW).map(numberField), folded);
}

export function resetSettings() {
  values = {};
  writeChoice("settings", values);
}
