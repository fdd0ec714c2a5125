// The methods and properties of values: text.strip(), dict.items(), list.append(), loop.index.
#pragma once

#include "model/chat/jinja/value.h"

#include <optional>
#include <string>

namespace tp::jinja {

// Finds a method or property of a value; nullopt if neither exists. Throws EvaluationError for Python methods
// that tp-infer does not support.
std::optional<Value> find_method(const Value& value, const std::string& name, Heap& heap);

}  // namespace tp::jinja
