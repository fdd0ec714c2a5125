#include "model/chat/jinja/library.h"

#include "model/chat/jinja/operators.h"

#include <charconv>

#include <fmt/format.h>

namespace tp::jinja {
namespace {

FilterFunction find_filter(std::string_view name) {
  for (const auto find : {find_text_filter, find_list_filter, find_selection_filter}) {
    if (const FilterFunction filter = find(name)) return filter;
  }
  return nullptr;
}

}  // namespace

Value apply_filter(std::string_view name, const Value& subject, Arguments& arguments, Heap& heap) {
  const FilterFunction filter = find_filter(name);
  if (filter == nullptr) throw EvaluationError(fmt::format("there is no filter '{}'", name));
  Value result = filter(subject, arguments, heap);
  arguments.check_all_taken();
  return result;
}

bool apply_test(std::string_view name, const Value& subject, Arguments& arguments, Heap& heap) {
  const TestFunction test = find_test(name);
  if (test == nullptr) throw EvaluationError(fmt::format("there is no test '{}'", name));
  const bool result = test(subject, arguments, heap);
  arguments.check_all_taken();
  return result;
}

Value member_at_path(const Value& value, const Value& path, Heap& heap) {
  if (!path.is_text()) return item_of(value, path, heap);
  Value member = value;
  std::string_view rest = path.text();
  while (true) {
    const std::size_t end = std::min(rest.find('.'), rest.size());
    const std::string_view name = rest.substr(0, end);
    std::int64_t index = 0;
    const auto parsed = std::from_chars(name.data(), name.data() + name.size(), index);
    const bool is_index =
        parsed.ec == std::errc() && parsed.ptr == name.data() + name.size() && name[0] != '-';
    member = item_of(member, is_index ? Value(index) : Value(std::string(name)), heap);
    if (end == rest.size()) return member;
    rest.remove_prefix(end + 1);
  }
}

}  // namespace tp::jinja
