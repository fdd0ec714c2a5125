// The menu of models, for a gateway with several models.

import { element, find } from "./dom.js";
import { readChoice, writeChoice } from "./store.js";

const STATES = {
  stopped: "stopped, starts when asked",
  starting: "starting",
  restarting: "restarting",
  draining: "ending",
  failing: "does not start",
};

// Only a gateway's list contains states. A server's list contains names of its only model.
export const areSeveral = (models) => models.length > 1 && models.every(({ state }) => state);

// Returns the model that the user chose last, or else the first ready model, or else the first model.
export function preferred(models) {
  const last = readChoice("model", "");
  return models.find(({ id }) => id === last) ?? models.find(({ state }) => state === "ready") ?? models[0];
}

const labelOf = ({ id, state }) => (STATES[state] ? `${id} (${STATES[state]})` : id);

// Shows the models and selects `current`. An open menu keeps its entries, so that they don't move under the pointer.
export function showModels(models, current, { choose, refresh }) {
  const place = find("model");
  const known = place.querySelector("select");
  if (known && [...known.options].map(({ value }) => value).join("\n") === models.map(({ id }) => id).join("\n")) {
    models.forEach((model, i) => {
      known.options[i].textContent = labelOf(model);
    });
    known.value = current;
    return;
  }
  const select = element(
    "select",
    { "aria-label": "Model", onfocus: refresh },
    ...models.map((model) => element("option", { value: model.id }, labelOf(model))),
  );
  select.value = current;
  select.addEventListener("change", () => {
    writeChoice("model", select.value);
    choose(select.value);
  });
  place.title = "";
  place.replaceChildren(select);
}
