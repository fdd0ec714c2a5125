#include "model/tokenizer/steps/json_pattern.h"

#include <nlohmann/json.hpp>

namespace tp {

Regex pattern_from_json(const JsonNode& json) {
  const std::optional<JsonNode> literal = json.find("String");
  const JsonNode pattern = literal ? *literal : json.at("Regex");
  try {
    return literal ? Regex::literal(pattern.string()) : Regex::from_oniguruma(pattern.string());
  } catch (const RegexError& error) {
    pattern.fail(error.what(), "a regular expression of Oniguruma that PCRE2 can run",
                 "use a model with another pattern");
  }
}

}  // namespace tp
