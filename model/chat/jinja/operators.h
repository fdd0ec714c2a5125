// The operators of expressions: + - < in [..] and others.
#pragma once

#include "model/chat/jinja/value.h"

#include <optional>
#include <string_view>

namespace tp::jinja {

// All functions below throw EvaluationError for unsupported operands.

// A number with a leading '-' or '+'.
Value apply_sign(char sign, const Value& value);

// + - * / // % ** ~
Value apply_operator(std::string_view operation, const Value& left, const Value& right, Heap& heap);

// == != < <= > >= in, not in
bool compare(std::string_view operation, const Value& left, const Value& right, Budget& budget);

// value[key]; undefined if the member does not exist.
Value item_of(const Value& value, const Value& key, Heap& heap);

// value.name: a method, else a member; undefined if neither exists.
Value member_of(const Value& value, const std::string& name, Heap& heap);

struct SliceBounds {
  std::optional<std::int64_t> start{};
  std::optional<std::int64_t> stop{};
  std::int64_t step = 1;
};

// value[start:stop:step] of a list, or of a text's characters.
Value slice_of(const Value& value, const SliceBounds& bounds, Heap& heap);

// Python's % operator for texts: %s %r %d %i %f %.2f %%. `arguments` is a tuple or a single value.
MarkedText format_percent(const MarkedText& pattern, const Value& arguments, Budget& budget);

}  // namespace tp::jinja
