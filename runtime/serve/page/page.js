// The page: it asks the server for its models, and shows the view in the address: #/ (a new conversation), #/c/ID,
// #/ranks.

import { getJson, onMissingKey, setKey } from "./api.js";
import { Chat, showWelcome } from "./chat.js";
import { showConnect } from "./connect.js";
import { exported, newConversation, titleOf } from "./conversation.js";
import { download, element, find, setIcon, toast } from "./dom.js";
import { areSeveral, preferred, showModels } from "./models.js";
import { RanksView } from "./ranks.js";
import { resetSettings, sampling, showSettings } from "./settings.js";
import { Sidebar } from "./sidebar.js";
import { load, onStorageFull, readChoice, save, watch, writeChoice } from "./store.js";
import { TextView } from "./text.js";

const RETRY_EVERY = 3000; // ms between attempts while the server does not answer
const LOOK_EVERY = 10000; // ms between requests for the states of several models

const server = { model: undefined, name: "", chat: true, context: null, ready: false, models: [], several: false };
const chat = new Chat(server, {
  changed,
  asText: (messages) => startText(messages.map(({ content }) => content).join("\n\n")),
  startNew: startConversation,
});
const text = new TextView(server, { changed });
const ranks = new RanksView(server, find("ranks"));
const sidebar = new Sidebar({ isRunning, left });
let shown = null; // visible view

function isRunning(id) {
  return chat.answers.has(id) || text.answers.has(id);
}

// Called when a conversation has been removed.
function left(id) {
  (chat.answers.get(id) ?? text.answers.get(id))?.stop();
  if (current()?.id === id && shown !== ranks) goTo("");
}

// Gives a new conversation its address when it is first stored, so that a reload returns to it.
function changed() {
  const conversation = current();
  if (shown !== ranks && load(conversation.id)) {
    history.replaceState(null, "", `#/c/${conversation.id}`);
    find("tab-chat").href = `#/c/${conversation.id}`;
    document.title = titleFor(conversation);
  }
  sidebar.render(conversation.id);
}

const titleFor = (conversation) => `${titleOf(conversation)} – ${server.name || "tp-infer"}`;

const current = () => (shown === text ? text : chat).conversation;

function goTo(path) {
  if (location.hash === `#/${path}`) route();
  else location.hash = `#/${path}`;
}

function startConversation() {
  sidebar.close(false);
  goTo("");
  focusField();
}

function show(view, id) {
  shown = view;
  for (const name of ["chat", "text", "ranks"]) find(name).hidden = name !== id;
  const [here, other] = id === "ranks" ? ["tab-ranks", "tab-chat"] : ["tab-chat", "tab-ranks"];
  find(here).setAttribute("aria-current", "page");
  find(other).removeAttribute("aria-current");
  if (id === "ranks") ranks.enter();
  else ranks.leave();
}

function open(conversation) {
  const view = conversation.mode === "text" ? text : chat;
  show(view, conversation.mode === "text" ? "text" : "chat");
  view.open(conversation);
  find("tab-chat").href = `#/c/${conversation.id}`;
  sidebar.render(conversation.id);
  document.title = titleFor(conversation);
}

// An unknown id starts a new conversation, which is stored with its first message.
function start(mode) {
  open(newConversation(mode, mode === "chat" ? readChoice("system", "") : ""));
  find("tab-chat").href = "#/";
  focusField();
}

function startText(content) {
  const conversation = newConversation("text");
  conversation.text = content;
  save(conversation);
  goTo(`c/${conversation.id}`);
}

function route() {
  const id = /^#\/c\/(\w+)$/.exec(location.hash)?.[1];
  if (location.hash === "#/ranks") {
    show(ranks, "ranks");
    document.title = `Ranks – ${server.name || "tp-infer"}`;
    return;
  }
  const conversation = id && load(id);
  if (conversation) open(conversation);
  else start(server.chat ? "chat" : "text");
}

function focusField() {
  // On a phone, the keyboard would cover the page.
  if (!matchMedia("(pointer: coarse)").matches) find(shown === text ? "text-field" : "composer-text").focus();
}

function showBanner(message, retry) {
  const banner = find("banner");
  banner.hidden = !message;
  if (!message) return;
  banner.replaceChildren(
    element("span", {}, message),
    element("button", { type: "button", onclick: retry }, "Try again"),
  );
}

// `models`: all models of the server.
function readModel(model, models) {
  server.models = models;
  server.several = areSeveral(models);
  server.chat = model.capabilities?.chat !== false;
  server.context = model.max_model_len ?? model.meta?.n_ctx ?? null;
  find("tab-chat").textContent = server.chat ? "Chat" : "Text";
  if (server.several) showModels(models, model.id, { choose: chooseModel, refresh: look });
  if (server.model === model.id) return;
  server.model = model.id;
  server.name = model.id.split("/").pop();
  server.ready = true;
  if (!server.several) {
    find("model").textContent = server.name;
    find("model").title = model.id;
  }
  showWelcome(server, {
    send: (question) => chat.send(question),
    newText: () => start("text"),
    connect: openConnect,
  });
}

function chooseModel(id) {
  readModel(server.models.find((model) => model.id === id) ?? server.models[0], server.models);
  showMode();
}

// If the model has no chat template, replaces an empty chat by an empty text.
function showMode() {
  if (!server.chat && shown === chat && !chat.conversation.leaf) route();
  else if (shown === chat) chat.render();
}

let retryTimer = 0;
let lookTimer = 0;

// Requests the states of several models, because they change without the page.
async function look() {
  clearTimeout(lookTimer);
  if (!server.several || document.hidden) return;
  try {
    const { data } = await getJson("v1/models", { quiet: true });
    const model = data.find(({ id }) => id === server.model);
    if (model) readModel(model, data);
  } catch {
    // The next request to the model reports the error.
  }
  clearTimeout(lookTimer);
  lookTimer = setTimeout(look, LOOK_EVERY);
}

// Requests the list of models until the server answers.
async function connect() {
  clearTimeout(retryTimer);
  try {
    const { data } = await getJson("v1/models");
    readModel(preferred(data), data);
    showBanner(null);
    showMode();
    if (server.several) lookTimer = setTimeout(look, LOOK_EVERY);
  } catch (error) {
    showBanner(error.message, connect);
    if (error.kind !== "key") retryTimer = setTimeout(connect, RETRY_EVERY);
  }
}

// Shows a dialog for the key, and returns whether the user entered one. Waiting requests share the dialog.
let asking = null;

function askForKey(wasWrong) {
  asking ??= new Promise((resolve) => {
    const dialog = find("key");
    find("key-reason").textContent = wasWrong
      ? "The server does not accept this key."
      : "This server answers only requests that carry its key.";
    find("key-field").value = "";
    dialog.returnValue = "cancel";
    dialog.showModal();
    dialog.addEventListener(
      "close",
      () => {
        asking = null;
        const entered = dialog.returnValue === "ok" ? find("key-field").value.trim() : "";
        if (entered) setKey(entered);
        resolve(entered !== "");
      },
      { once: true },
    );
  });
  return asking;
}

function openConnect() {
  showConnect(find("connect-samples"), server);
  find("connect").showModal();
}

function openSettings() {
  const conversation = shown === chat ? chat.conversation : null;
  showSettings(find("settings-fields"), conversation, () => {
    writeChoice("system", conversation.system);
    if (conversation.leaf) save(conversation);
  });
  find("settings-export").disabled = !current() || (!current().leaf && !current().text);
  if (!find("settings").open) find("settings").showModal();
}

function exportConversation() {
  const conversation = current();
  const name = titleOf(conversation)
    .replace(/[^\p{L}\p{N}]+/gu, "-")
    .replace(/^-|-$/g, "")
    .toLowerCase();
  download(
    `${name || "conversation"}.json`,
    `${JSON.stringify(exported(conversation, server.model, sampling()), null, 2)}\n`,
  );
}

function isDark() {
  const { theme } = document.documentElement.dataset;
  return theme ? theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function showTheme() {
  setIcon(find("theme"), isDark() ? "sun" : "moon", isDark() ? "Light colours" : "Dark colours");
}

function switchTheme() {
  const chosen = isDark() ? "light" : "dark";
  document.documentElement.dataset.theme = chosen;
  writeChoice("theme", chosen);
  showTheme();
}

function listen() {
  addEventListener("hashchange", route);
  document.addEventListener("visibilitychange", look);
  addEventListener("pagehide", () =>
    [...chat.answers.values(), ...text.answers.values()].forEach((answer) => answer.leave()),
  );
  addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !document.querySelector("dialog[open]")) shown?.stop?.();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", showTheme);
  find("new-conversation").addEventListener("click", startConversation);
  find("skip").addEventListener("click", () => find(shown === text ? "text-field" : "composer-text").focus());
  find("theme").addEventListener("click", switchTheme);
  find("open-settings").addEventListener("click", openSettings);
  find("open-connect").addEventListener("click", openConnect);
  find("settings-connect").addEventListener("click", () => {
    find("settings").close();
    openConnect();
  });
  find("settings-export").addEventListener("click", exportConversation);
  find("settings-reset").addEventListener("click", () => {
    resetSettings();
    openSettings();
  });
  // This is not a submit button, because Enter in the field would press it.
  find("key-cancel").addEventListener("click", () => find("key").close("cancel"));
  find("settings-key").addEventListener("click", () => askForKey(false).then((entered) => entered && connect()));
  for (const dialog of document.querySelectorAll("dialog")) {
    dialog.addEventListener("click", (event) => {
      if (event.target === dialog) dialog.close("cancel");
    });
  }
  onMissingKey((wasWrong) => askForKey(wasWrong));
  onStorageFull(() => toast("The browser's storage is full: delete conversations, or this one is lost with the page."));
  watch(isRunning, {
    changed: (id) => {
      if (shown !== ranks && current().id === id) shown.refresh();
      sidebar.render();
    },
    gone: (id) => {
      left(id);
      sidebar.render();
    },
  });
}

setIcon(find("menu"), "menu");
setIcon(find("open-settings"), "settings", "Settings");
for (const close of document.querySelectorAll(".close")) setIcon(close, "close", "Close");
showTheme();
listen();
route();
connect();
