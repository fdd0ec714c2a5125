// A constraint on the text of a continuation.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace tp {

namespace constraint {

// The white space of generated JSON.
enum class JsonSpace : std::uint8_t {
  flexible,  // after `{`, `[`, `,` and `:` and before `}` and `]`: none, a space, or a line break with an
             // indentation of up to 40 spaces or tabs
  compact,   // none
};

// JSON for which a JSON Schema (drafts 4 to 2020-12, OpenAPI) holds. Properties come in the schema's order.
// No properties beside `properties` are generated unless the schema has `additionalProperties`.
struct JsonSchema {
  std::string schema;  // as JSON
  JsonSpace space = JsonSpace::flexible;
};

// Any JSON object.
struct JsonObject {
  JsonSpace space = JsonSpace::flexible;
};

// A text that matches the regular expression as a whole.
struct Regex {
  std::string pattern;
};

// One of the texts.
struct Choice {
  std::vector<std::string> texts;
};

// A text that the rule `root` of a grammar derives, in GBNF, the notation of llama.cpp.
struct Grammar {
  std::string gbnf;
};

}  // namespace constraint

using Constraint = std::variant<constraint::JsonSchema, constraint::JsonObject, constraint::Regex,
                                constraint::Choice, constraint::Grammar>;

}  // namespace tp
