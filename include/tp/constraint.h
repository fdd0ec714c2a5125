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

// JSON that satisfies a JSON Schema (drafts 4 to 2020-12, OpenAPI). Properties have the schema's order.
// Properties outside of `properties` are generated only if the schema has `additionalProperties`.
struct JsonSchema {
  std::string schema;  // as JSON
  JsonSpace space = JsonSpace::flexible;
};

// Any JSON object.
struct JsonObject {
  JsonSpace space = JsonSpace::flexible;
};

// A text that the regular expression matches as a whole.
struct Regex {
  std::string pattern;
};

// One of the texts.
struct Choice {
  std::vector<std::string> texts;
};

// A text that the rule `root` of a grammar derives. GBNF is llama.cpp's notation.
struct Grammar {
  std::string gbnf;
};

}  // namespace constraint

using Constraint = std::variant<constraint::JsonSchema, constraint::JsonObject, constraint::Regex,
                                constraint::Choice, constraint::Grammar>;

}  // namespace tp
