// The filters, tests and functions of all templates.
#pragma once

#include "model/chat/jinja/value.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace tp::jinja {

using FilterFunction = Value (*)(const Value& subject, Arguments& arguments, Heap& heap);
using TestFunction = bool (*)(const Value& subject, Arguments& arguments, Heap& heap);

// A function of templates.
template <class Function>
struct Named {
  std::string_view name;
  Function function;
};
// Null for an unknown name.
template <class Function, std::size_t kCount>
Function find_named(const Named<Function> (&all)[kCount], std::string_view name) {
  const auto* const found = std::ranges::find(all, name, &Named<Function>::name);
  return found == std::end(all) ? nullptr : found->function;
}

// Finds filters and tests by name; null for an unknown name.
FilterFunction find_text_filter(std::string_view name);
FilterFunction find_list_filter(std::string_view name);
FilterFunction find_selection_filter(std::string_view name);
TestFunction find_test(std::string_view name);

// Evaluates subject|name(arguments) and subject is name(arguments). Throws EvaluationError.
Value apply_filter(std::string_view name, const Value& subject, Arguments& arguments, Heap& heap);
bool apply_test(std::string_view name, const Value& subject, Arguments& arguments, Heap& heap);

// The member of `value` at a path: "function.name", "0", or a number.
Value member_at_path(const Value& value, const Value& path, Heap& heap);

// The functions range, namespace, dict, raise_exception and strftime_now, by name. `now`: the result of
// strftime_now; by default, the local time in the requested format.
std::map<std::string, Value, std::less<>> make_globals(const std::optional<std::string>& now, Heap& heap);

}  // namespace tp::jinja
