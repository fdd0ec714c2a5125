// Chat templates from any text, rendered with a conversation. Seeds: each `template` in tests/data/jinja.
#include "model/chat/jinja/template.h"
#include "tp/error.h"

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include <nlohmann/json.hpp>

namespace {

const nlohmann::ordered_json& variables() {
  static const auto parsed = nlohmann::ordered_json::parse(R"({
    "messages": [{"role": "system", "content": " Be brief. "}, {"role": "user", "content": "Grüße, 世界"},
                 {"role": "assistant", "content": null, "tool_calls": [{"id": 1, "function": {"name": "f"}}]}],
    "add_generation_prompt": true, "bos_token": "<s>", "eos_token": "</s>",
    "n": 7, "s": "a-b c", "d": {"b": 1, "a": [1, 2.5, null, true]}, "l": [3, 1, 2], "e": []})");
  return parsed;
}

// If a template contains neither this character nor escapes, the character comes from the conversation.
void check_marks(std::string_view source, const tp::MarkedText& text) {
  constexpr std::string_view kInput = "世";
  if (source.find(kInput) != std::string_view::npos || source.find('\\') != std::string_view::npos) return;
  for (std::size_t at = 0; (at = text.text().find(kInput, at)) != std::string::npos; at += kInput.size()) {
    for (std::size_t i = 0; i < kInput.size(); ++i) {
      if (!text.has_input(at + i, at + i + 1)) std::abort();
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const tp::jinja::Template parsed(std::string_view(reinterpret_cast<const char*>(data), size), "fuzz");
    const tp::MarkedText text = parsed.render(variables(), {.now = "now"});
    check_marks({reinterpret_cast<const char*>(data), size}, text);
  } catch (const tp::Error&) {
    // Invalid templates, and templates that do too much, must be rejected.
  }
  return 0;
}
