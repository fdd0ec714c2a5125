// A constraint on the text of a continuation.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace tp {

namespace constraint {

// White space in generated JSON.
enum class JsonSpace : std::uint8_t {
  flexible,  // after `{`, `[`, `,` or `:` and before `}` or `]`: nothing, a space, or a line break and up to
             // 40 spaces or tabs
  compact,   // no white space
};

// JSON that satisfies a JSON Schema (drafts 4 to 2020-12, OpenAPI). Properties appear in the schema's order.
// Properties not listed in `properties` are generated only if the schema has `additionalProperties`.
struct JsonSchema {
  std::string schema;  // JSON text
  JsonSpace space = JsonSpace::flexible;
};

// Any JSON object.
struct JsonObject {
  JsonSpace space = JsonSpace::flexible;
};

// Text that, as a whole, matches the regular expression.
struct Regex {
  std::string pattern;
};

// One of the given texts.
struct Choice {
  std::vector<std::string> texts;
};

// Text that matches a grammar's `root` rule. GBNF is llama.cpp's notation for grammars.
struct Grammar {
  std::string gbnf;
};

}  // namespace constraint

using Constraint = std::variant<constraint::JsonSchema, constraint::JsonObject, constraint::Regex,
                                constraint::Choice, constraint::Grammar>;

}  // namespace tp
