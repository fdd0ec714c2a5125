// Converts values to text. The texts in a value keep their marks; everything else is not input.
#pragma once

#include "model/chat/jinja/value.h"

#include <optional>

namespace tp::jinja {

// The output of {{ value }}: Python's str(). Throws EvaluationError for functions and similar values.
MarkedText printed(const Value& value, Budget& budget);

// The output within a list: Python's repr(), which quotes texts.
MarkedText representation(const Value& value, Budget& budget);

struct JsonStyle {
  std::optional<std::size_t> indent{};  // null: all on one line
  MarkedText item_separator{", "};
  MarkedText key_separator{": "};
  bool ascii_only = false;
  bool sorted_keys = false;
};

// The result of the filter tojson: Python's json.dumps(). Throws EvaluationError for values that JSON cannot
// represent.
MarkedText to_json(const Value& value, const JsonStyle& style, Budget& budget);

}  // namespace tp::jinja
