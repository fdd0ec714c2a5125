// Values as text.
#pragma once

#include "model/tokenizer/jinja/value.h"

#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

namespace tp::jinja {

// What {{ value }} prints: Python's str(). Throws EvaluationError for functions and the like.
std::string printed(const Value& value, Budget& budget);

// The same within a list: Python's repr(), in which texts have quotes.
std::string representation(const Value& value, Budget& budget);

struct JsonStyle {
  std::optional<std::size_t> indent{};  // without one, all on one line
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool ascii_only = false;
  bool sorted_keys = false;
};

// The result of the filter tojson: Python's json.dumps(). Throws EvaluationError for values without JSON
// form.
std::string to_json(const Value& value, const JsonStyle& style, Budget& budget);

// Members keep their order. Throws EvaluationError for whole numbers beyond 64 bits.
Value from_json(const nlohmann::ordered_json& json, Heap& heap);

}  // namespace tp::jinja
