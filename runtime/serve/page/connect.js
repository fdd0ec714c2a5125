// Example commands that use this server from a shell or a program.

import { key, origin } from "./api.js";
import { copyButton, element } from "./dom.js";

const KEY_PLACEHOLDER = "YOUR_KEY"; // the page does not show the key

// Quotes a value within single quotes of a shell.
const quoted = (value) => JSON.stringify(value).replaceAll("'", "'\\''");

function curlLines({ model, chat }) {
  const authorization = key() ? ` \\\n  -H 'Authorization: Bearer ${KEY_PLACEHOLDER}'` : "";
  const path = chat ? "chat/completions" : "completions";
  const question = chat
    ? `"messages": [{"role": "user", "content": "Tell me a story."}]`
    : `"prompt": "One rainy morning", "max_tokens": 100`;
  return (
    `curl -N ${origin()}/v1/${path}${authorization} \\\n` +
    `  -H 'Content-Type: application/json' \\\n` +
    `  -d '{"model": ${quoted(model)}, "stream": true,\n       ${question}}'`
  );
}

function pythonLines({ model, chat }) {
  const call = chat
    ? [
        "stream = client.chat.completions.create(",
        `    model=${JSON.stringify(model)},`,
        `    messages=[{"role": "user", "content": "Tell me a story."}],`,
        "    stream=True,",
        ")",
        "for chunk in stream:",
        `    print(chunk.choices[0].delta.content or "", end="", flush=True)`,
      ]
    : [
        "stream = client.completions.create(",
        `    model=${JSON.stringify(model)}, prompt="One rainy morning", max_tokens=100, stream=True,`,
        ")",
        "for chunk in stream:",
        `    print(chunk.choices[0].text, end="", flush=True)`,
      ];
  return [
    "from openai import OpenAI  # pip install openai",
    "",
    `client = OpenAI(base_url="${origin()}/v1", api_key="${key() ? KEY_PLACEHOLDER : "none"}")`,
    ...call,
  ].join("\n");
}

function sample(title, text) {
  return element(
    "figure",
    { class: "code" },
    element(
      "figcaption",
      {},
      element("span", {}, title),
      copyButton(() => text, `Copy the lines for ${title}`),
    ),
    element("pre", { tabindex: "0" }, element("code", {}, text)),
  );
}

export function showConnect(container, server) {
  container.replaceChildren(
    sample("curl", curlLines(server)),
    sample("Python", pythonLines(server)),
    element(
      "p",
      { class: "note" },
      "Also here: ",
      ...["v1/models", "health", "metrics", "v1/status"].flatMap((path, i) => [
        i > 0 ? ", " : "",
        element("a", { href: path, target: "_blank", rel: "noopener" }, `/${path}`),
      ]),
      ".",
    ),
  );
}
