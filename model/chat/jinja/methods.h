// The members of values: text.strip(), dict.items(), list.append(), loop.index.
#pragma once

#include "model/chat/jinja/value.h"

#include <optional>
#include <string>

namespace tp::jinja {

// The method or property of a value, or nothing. Throws EvaluationError for a method that Python has and
// tp-infer does not.
std::optional<Value> find_method(const Value& value, const std::string& name, Heap& heap);

}  // namespace tp::jinja
