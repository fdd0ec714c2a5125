// Values as text. What is printed of a text has its marks; all else is not input.
#pragma once

#include "model/chat/jinja/value.h"

#include <optional>

namespace tp::jinja {

// What {{ value }} prints: Python's str(). Throws EvaluationError for functions and the like.
MarkedText printed(const Value& value, Budget& budget);

// The same within a list: Python's repr(), in which texts have quotes.
MarkedText representation(const Value& value, Budget& budget);

struct JsonStyle {
  std::optional<std::size_t> indent{};  // without one, all on one line
  MarkedText item_separator{", "};
  MarkedText key_separator{": "};
  bool ascii_only = false;
  bool sorted_keys = false;
};

// The result of the filter tojson: Python's json.dumps(). Throws EvaluationError for values without JSON
// form.
MarkedText to_json(const Value& value, const JsonStyle& style, Budget& budget);

}  // namespace tp::jinja
