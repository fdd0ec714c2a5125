// The filters, tests and functions that every template knows.
#pragma once

#include "model/chat/jinja/value.h"

#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace tp::jinja {

using FilterFunction = Value (*)(const Value& subject, Arguments& arguments, Heap& heap);
using TestFunction = bool (*)(const Value& subject, Arguments& arguments, Heap& heap);

// The parts of the library; null if there is none of this name.
FilterFunction find_text_filter(std::string_view name);
FilterFunction find_list_filter(std::string_view name);
FilterFunction find_selection_filter(std::string_view name);
TestFunction find_test(std::string_view name);

// subject|name(arguments) and subject is name(arguments). Throws EvaluationError.
Value apply_filter(std::string_view name, const Value& subject, Arguments& arguments, Heap& heap);
bool apply_test(std::string_view name, const Value& subject, Arguments& arguments, Heap& heap);

// The member of `value` that a path names: "function.name", "0", or a number.
Value member_at_path(const Value& value, const Value& path, Heap& heap);

// range, namespace, dict, raise_exception and strftime_now by name. `now` is what strftime_now gives; without
// it, the local time in the format asked for.
std::map<std::string, Value, std::less<>> make_globals(const std::optional<std::string>& now, Heap& heap);

}  // namespace tp::jinja
