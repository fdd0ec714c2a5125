// The server's refusals in the words of people who chat.

import { count } from "./format.js";

function tooLong({ n_prompt_tokens: tokens, n_ctx: most }) {
  if (!(most > 0)) return "Too long for this model.";
  const rest = tokens <= most ? ", which leaves none for an answer" : "";
  return `Too long for this model: ${count(tokens)} of ${count(most)} tokens${rest}.`;
}

// {message, kind, isTooLong, noTemplate} of an ApiError.
export function explain({ message, kind, status, details = {} }) {
  if (details.code === "context_length_exceeded") return { message: tooLong(details), kind, isTooLong: true };
  if (details.param === "continue_final_message") {
    return { message: "This model cannot continue an answer. Raise Max tokens in the settings, and try again.", kind };
  }
  if (details.code === "model_not_found") {
    return { message: "The server no longer offers this model. Reload the page.", kind };
  }
  const wait = details.wait ? ` Try again in ${details.wait} s.` : "";
  if (status === 429) return { message: `The server is busy.${wait}`, kind };
  if (status === 503) return { message: `The server is not ready: ${message}.${wait}`, kind };
  return { message, kind, noTemplate: status === 400 && /chat.?template/i.test(message) };
}
