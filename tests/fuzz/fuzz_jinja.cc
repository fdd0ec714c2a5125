// Chat templates of any text, rendered with a conversation. Seeds: the `template`s of tests/data/jinja.
#include "model/tokenizer/jinja/template.h"
#include "tp/error.h"

#include <cstdint>
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

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const tp::jinja::Template parsed(std::string_view(reinterpret_cast<const char*>(data), size), "fuzz");
    parsed.render(variables(), {.now = "now"});
  } catch (const tp::Error&) {
    // What templates that are none, or that do too much, are for.
  }
  return 0;
}
