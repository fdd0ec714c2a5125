// Builds elements node by node, so a string argument becomes text and never markup.

const SVG = "http://www.w3.org/2000/svg";
const MATHML = "http://www.w3.org/1998/Math/MathML";

// paths on a 24 x 24 grid
const ICONS = {
  menu: "M4 7h16M4 12h16M4 17h10",
  send: "M12 19V5M6 11l6-6 6 6",
  attach: "M19 11l-7.5 7.5a4.2 4.2 0 0 1-6-6L13 5a2.8 2.8 0 0 1 4 4l-7.5 7.5a1.4 1.4 0 0 1-2-2L14 8",
  stop: "M8 8h8v8H8z",
  copy: "M9 9h10v11H9zM5 15V4h10",
  done: "M5 13l4.5 4.5L19 7",
  edit: "M4 20h4L19 9l-4-4L4 16zM13 7l4 4",
  again: "M19 12a7 7 0 1 1-2-5M19 3v5h-5",
  trash: "M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13",
  settings: "M4 8h9M17 8h3M4 16h3M11 16h9M15 5.5v5M9 13.5v5",
  sun: "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8M12 2v2.5M12 19.5V22M2 12h2.5M19.5 12H22M5 5l1.8 1.8M17.2 17.2L19 19M19 5l-1.8 1.8M6.8 17.2L5 19",
  moon: "M20 14.5A8.5 8.5 0 0 1 9.5 4 8.5 8.5 0 1 0 20 14.5z",
  back: "M14 6l-6 6 6 6",
  forward: "M10 6l6 6-6 6",
  close: "M6 6l12 12M18 6L6 18",
};

export const find = (id) => document.getElementById(id);

// element("button", {class: "quiet", onclick: f}, "Copy"): attributes that are functions become listeners; false, null
// and undefined leave an attribute out.
export function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value != null) node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child != null));
  return node;
}

export function svg(tag, attributes = {}, ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

// A tree of tex.js, whose names of elements and attributes are the page's own.
export function mathElement({ tag, attributes, children }) {
  const node = document.createElementNS(MATHML, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children.map((child) => (typeof child === "string" ? child : mathElement(child))));
  return node;
}

export function icon(name) {
  return svg("svg", { viewBox: "0 0 24 24", class: "glyph", "aria-hidden": "true" }, svg("path", { d: ICONS[name] }));
}

export function iconButton(name, label, onclick, attributes = {}) {
  return element(
    "button",
    { type: "button", class: "icon", "aria-label": label, title: label, onclick, ...attributes },
    icon(name),
  );
}

export function setIcon(button, name, label) {
  button.replaceChildren(icon(name));
  if (label) {
    button.setAttribute("aria-label", label);
    button.title = label;
  }
}

// Gives screen readers one sentence at a time, instead of every token of an answer.
export function announce(text) {
  find("announcer").textContent = text;
}

let toastTimer = 0;

// Shows a short notice at the bottom, with an action such as "Undo".
export function toast(text, label, action) {
  const box = find("toast");
  const hide = () => {
    box.hidden = true;
  };
  box.replaceChildren(element("span", {}, text));
  if (action) {
    box.append(element("button", { type: "button", class: "link", onclick: () => (hide(), action()) }, label));
  }
  box.hidden = false;
  clearTimeout(toastTimer);
  toastTimer = setTimeout(hide, 8000);
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return;
  } catch {
    // Browsers allow the clipboard only on secure origins, unlike http://node1:8080.
  }
  const area = element("textarea", { class: "sr-only", readonly: true });
  area.value = text;
  const focused = document.activeElement;
  (focused?.closest("dialog") ?? document.body).append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
  focused?.focus();
}

export function copyButton(text, label = "Copy") {
  const button = iconButton("copy", label, async () => {
    await copy(text());
    setIcon(button, "done", "Copied");
    setTimeout(() => setIcon(button, "copy", label), 1500);
    announce("Copied");
  });
  return button;
}

export function download(name, text) {
  const url = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  const link = element("a", { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}
