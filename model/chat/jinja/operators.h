// The operators of expressions: + - < in [..] and so on.
#pragma once

#include "model/chat/jinja/value.h"

#include <optional>
#include <string_view>

namespace tp::jinja {

// All of these throw EvaluationError for operands that they do not support.

// '-' or '+' in front of a number.
Value apply_sign(char sign, const Value& value);

// + - * / // % ** ~
Value apply_operator(std::string_view operation, const Value& left, const Value& right, Heap& heap);

// == != < <= > >= in, not in
bool compare(std::string_view operation, const Value& left, const Value& right, Budget& budget);

// value[key]: undefined if there is no such member.
Value item_of(const Value& value, const Value& key, Heap& heap);

// value.name: methods first, then members; undefined if there is neither.
Value member_of(const Value& value, const std::string& name, Heap& heap);

struct SliceBounds {
  std::optional<std::int64_t> start{};
  std::optional<std::int64_t> stop{};
  std::int64_t step = 1;
};

// value[start:stop:step] of a list or of a text's characters.
Value slice_of(const Value& value, const SliceBounds& bounds, Heap& heap);

// Python's % of a text: %s %r %d %i %f %.2f %%. `arguments` is a tuple or one value.
MarkedText format_percent(const MarkedText& pattern, const Value& arguments, Budget& budget);

}  // namespace tp::jinja
