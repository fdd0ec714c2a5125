#include "model/chat/jinja/operators.h"

#include "model/chat/jinja/methods.h"
#include "model/chat/jinja/printing.h"
#include "model/chat/jinja/text_search.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace tp::jinja {
namespace {

// A numeric value; booleans count as integers.
struct Number {
  bool is_whole = false;
  std::int64_t whole = 0;
  double value = 0.0;
};

std::optional<Number> number_in(const Value& value) {
  const std::optional<std::int64_t> whole = whole_number_of(value);
  const std::optional<double> number = number_of(value);
  return number ? std::optional(Number{whole.has_value(), whole.value_or(0), *number}) : std::nullopt;
}

[[noreturn]] void overflow() {
  throw EvaluationError("the result does not fit into a whole number of 64 bits");
}
[[noreturn]] void zero_division() { throw EvaluationError("division by zero"); }

// Integer division that rounds down, unlike C++'s.
std::int64_t floor_division(std::int64_t a, std::int64_t b) {
  if (b == 0) zero_division();
  if (b == -1) {
    std::int64_t result = 0;
    if (__builtin_sub_overflow(std::int64_t{0}, a, &result)) overflow();
    return result;
  }
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

// The remainder with the sign of `b`.
double floor_remainder(double a, double b) {
  if (b == 0.0) zero_division();
  const double remainder = std::fmod(a, b);
  if (remainder == 0.0) return std::copysign(0.0, b);
  return (remainder < 0.0) != (b < 0.0) ? remainder + b : remainder;
}

std::int64_t whole_power(std::int64_t base, std::int64_t exponent) {
  std::int64_t result = 1;
  // These bases never overflow, so their loop is shortened. Any other base overflows after few steps.
  if (base == 0 || base == 1 || base == -1) exponent = std::min(exponent, 2 + exponent % 2);
  for (; exponent > 0; --exponent) {
    if (__builtin_mul_overflow(result, base, &result)) overflow();
  }
  return result;
}

Value whole_arithmetic(std::string_view operation, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  bool overflows = false;
  if (operation == "+")
    overflows = __builtin_add_overflow(a, b, &result);
  else if (operation == "-")
    overflows = __builtin_sub_overflow(a, b, &result);
  else if (operation == "*")
    overflows = __builtin_mul_overflow(a, b, &result);
  else if (operation == "//")
    result = floor_division(a, b);
  else if (operation == "%")
    result = b == -1 ? 0 : a - floor_division(a, b) * b;
  else
    result = whole_power(a, b);
  if (overflows) overflow();
  return result;
}

Value arithmetic(std::string_view operation, const Number& a, const Number& b) {
  if (operation == "/") {
    if (b.value == 0.0) zero_division();
    return a.value / b.value;
  }
  const bool is_fraction = operation == "**" && b.is_whole && b.whole < 0;
  if (a.is_whole && b.is_whole && !is_fraction) return whole_arithmetic(operation, a.whole, b.whole);
  if (operation == "+") return a.value + b.value;
  if (operation == "-") return a.value - b.value;
  if (operation == "*") return a.value * b.value;
  if (operation == "%") return floor_remainder(a.value, b.value);
  if (operation == "//") {
    if (b.value == 0.0) zero_division();
    return std::floor((a.value - floor_remainder(a.value, b.value)) / b.value + 0.5);
  }
  if (a.value == 0.0 && b.value < 0.0) zero_division();
  const double power = std::pow(a.value, b.value);
  if (!std::isfinite(power) && std::isfinite(a.value) && std::isfinite(b.value))
    throw EvaluationError("the power does not fit into a number");
  return power;
}

bool is_list_or_tuple(const List& list) {
  return list.kind == List::Kind::list || list.kind == List::Kind::tuple;
}

// Evaluates 'ab' * 2 and [1] * 2.
std::optional<Value> repeat(const Value& value, const Value& times, Heap& heap) {
  const std::optional<Number> number = number_in(times);
  if (!number || !number->is_whole) return std::nullopt;
  const auto count = static_cast<std::size_t>(std::clamp<std::int64_t>(number->whole, 0, Budget::kLimit));
  if (value.is_text()) {
    heap.budget().spend(std::max<std::size_t>(1, value.text().size()) * count);
    MarkedText text;
    for (std::size_t i = 0; i < count; ++i) text.append(value.marked_text());
    return text;
  }
  const List* list = value.list();
  if (list == nullptr || !is_list_or_tuple(*list)) return std::nullopt;
  heap.budget().spend(std::max<std::size_t>(1, list->items.size() * Budget::kElement) * count);
  std::vector<Value> items;
  for (std::size_t i = 0; i < count; ++i) items.insert(items.end(), list->items.begin(), list->items.end());
  return heap.make_list(std::move(items), list->kind);
}

std::optional<Value> add(const Value& left, const Value& right, Heap& heap) {
  if (left.is_text() && right.is_text()) {
    heap.budget().spend(left.text().size() + right.text().size());
    MarkedText text = left.marked_text();
    text.append(right.marked_text());
    return text;
  }
  const List* a = left.list();
  const List* b = right.list();
  if (a == nullptr || b == nullptr || a->kind != b->kind || !is_list_or_tuple(*a)) return std::nullopt;
  heap.budget().spend((a->items.size() + b->items.size()) * Budget::kElement);
  std::vector<Value> items = a->items;
  items.insert(items.end(), b->items.begin(), b->items.end());
  return heap.make_list(std::move(items), a->kind);
}

bool contains(const Value& container, const Value& item, Budget& budget) {
  if (container.is_text()) {
    const std::string& text = require_text(item, "what is looked for in a text");
    budget.spend(container.text().size() + text.size());
    return find_text(container.text(), text) != std::string::npos;
  }
  if (const Dict* dict = container.dict()) return find_member(*dict, item, budget) != nullptr;
  if (const List* list = container.list()) {
    return std::ranges::any_of(list->items, [&](const Value& one) { return equal(one, item, budget); });
  }
  if (container.is_undefined()) return false;
  throw EvaluationError(fmt::format("a value of type {} contains nothing", container.type_name()));
}

// Clamps a slice bound to [0, size] (forwards) or [-1, size - 1] (backwards).
std::int64_t clamped(std::int64_t bound, std::int64_t size, bool forwards) {
  if (bound < 0) bound += size;
  return forwards ? std::clamp<std::int64_t>(bound, 0, size) : std::clamp<std::int64_t>(bound, -1, size - 1);
}

Value no_member(const Value& value, std::string_view name) {
  return Value::undefined(fmt::format("there is no '{}' in the {}", name, value.type_name()));
}

// Throws if the value is undefined, and so has no members.
void check_defined(const Value& value, std::string_view member) {
  if (const auto* undefined = value.get_if<Undefined>())
    throw EvaluationError(fmt::format("{}, so it has no '{}'", *undefined->reason, member));
}

}  // namespace

Value apply_sign(char sign, const Value& value) {
  const std::optional<Number> number = number_in(value);
  if (!number) throw EvaluationError(fmt::format("a value of type {} has no sign", value.type_name()));
  if (!number->is_whole) return sign == '-' ? -number->value : number->value;
  return sign == '-' ? whole_arithmetic("-", 0, number->whole) : Value(number->whole);
}

Value apply_operator(std::string_view operation, const Value& left, const Value& right, Heap& heap) {
  if (operation == "~") {
    MarkedText text = printed(left, heap.budget());
    text.append(printed(right, heap.budget()));
    return text;
  }
  const std::optional<Number> a = number_in(left);
  const std::optional<Number> b = number_in(right);
  if (a && b) return arithmetic(operation, *a, *b);
  std::optional<Value> result;
  if (operation == "+")
    result = add(left, right, heap);
  else if (operation == "*")
    result = a ? repeat(right, left, heap) : repeat(left, right, heap);
  else if (operation == "%" && left.is_text())
    result = format_percent(left.marked_text(), right, heap.budget());
  if (result) return *result;
  for (const Value* value : {&left, &right}) {
    if (const auto* undefined = value->get_if<Undefined>())
      throw EvaluationError(fmt::format("{}, so it cannot be used with {}", *undefined->reason, operation));
  }
  throw EvaluationError(fmt::format("{} does not work with values of the types {} and {}", operation,
                                    left.type_name(), right.type_name()));
}

bool compare(std::string_view operation, const Value& left, const Value& right, Budget& budget) {
  if (operation == "==") return equal(left, right, budget);
  if (operation == "!=") return !equal(left, right, budget);
  if (operation == "in") return contains(right, left, budget);
  if (operation == "not in") return !contains(right, left, budget);
  if (operation == "<") return less(left, right, budget);
  if (operation == ">") return less(right, left, budget);
  if (operation == "<=") return less(left, right, budget) || equal(left, right, budget);
  return less(right, left, budget) || equal(left, right, budget);
}

Value item_of(const Value& value, const Value& key, Heap& heap) {
  if (const Dict* dict = value.dict()) {
    if (const Value* member = find_member(*dict, key, heap.budget())) return *member;
  } else if (const auto* whole = key.get_if<std::int64_t>();
             whole != nullptr && (value.list() != nullptr || value.is_text())) {
    if (value.list() != nullptr && value.list()->kind == List::Kind::generator)
      return Value::undefined("a generator has no elements with numbers");
    const auto size = static_cast<std::int64_t>(length_of(value, heap.budget()));
    const std::int64_t index = *whole < 0 ? *whole + size : *whole;
    if (index < 0 || index >= size) {
      return Value::undefined(
          fmt::format("element {} of a {} of {} does not exist", *whole, value.type_name(), size));
    }
    if (const List* list = value.list()) return list->items[static_cast<std::size_t>(index)];
    return slice_of(value, {index, index + 1, 1}, heap);
  }
  if (key.is_text()) return member_of(value, key.text(), heap);
  const std::string name = printed(key, heap.budget()).text();
  check_defined(value, name);
  return no_member(value, name);
}

Value member_of(const Value& value, const std::string& name, Heap& heap) {
  check_defined(value, name);
  if (std::optional<Value> method = find_method(value, name, heap)) return *method;
  if (const Dict* dict = value.dict()) {
    if (const Value* member = find_text_member(*dict, name, heap.budget())) return *member;
  } else if (const Namespace* names = value.pointer<Namespace>()) {
    const auto member = names->members.find(name);
    if (member != names->members.end()) return member->second;
  }
  return no_member(value, name);
}

Value slice_of(const Value& value, const SliceBounds& bounds, Heap& heap) {
  if (value.list() == nullptr && !value.is_text()) {
    check_defined(value, "elements");
    throw EvaluationError(fmt::format("a value of type {} has no slices", value.type_name()));
  }
  if (value.list() != nullptr && value.list()->kind == List::Kind::generator)
    throw EvaluationError("a generator has no slices; make a list of it first: |list");
  if (bounds.step == 0) throw EvaluationError("a slice's step must not be 0");
  const bool forwards = bounds.step > 0;
  // Slices of a text count characters.
  std::vector<std::size_t> begins;
  if (value.is_text()) {
    const std::string& text = value.text();
    heap.budget().spend(text.size());
    for (std::size_t i = 0; i < text.size(); ++i) {
      if ((text[i] & 0xC0) != 0x80) begins.push_back(i);
    }
    begins.push_back(text.size());
  }
  const auto size =
      static_cast<std::int64_t>(value.is_text() ? begins.size() - 1 : value.list()->items.size());
  std::int64_t at = clamped(bounds.start.value_or(forwards ? 0 : size - 1), size, forwards);
  const std::int64_t end = bounds.stop ? clamped(*bounds.stop, size, forwards) : forwards ? size : -1;
  MarkedText text;
  std::vector<Value> items;
  while (forwards ? at < end : at > end) {
    const auto i = static_cast<std::size_t>(at);
    if (value.is_text())
      text.append(value.marked_text(), begins[i], begins[i + 1] - begins[i]);
    else
      items.push_back(value.list()->items[i]);
    if (__builtin_add_overflow(at, bounds.step, &at)) break;
  }
  if (value.is_text()) return text;
  return heap.make_list(std::move(items), value.list()->kind);
}

namespace {

struct Conversion {
  char kind = '%';
  std::optional<int> precision{};
};

// Reads the specification after '%', and advances `at` past it.
Conversion read_conversion(const std::string& pattern, std::size_t& at) {
  Conversion conversion;
  if (at < pattern.size() && pattern[at] == '.') {
    int precision = 0;
    for (++at; at < pattern.size() && pattern[at] >= '0' && pattern[at] <= '9' && precision < 100; ++at)
      precision = precision * 10 + (pattern[at] - '0');
    conversion.precision = precision;
  }
  if (at == pattern.size()) throw EvaluationError("the format ends within a conversion (%)");
  conversion.kind = pattern[at++];
  const bool is_known = std::string_view("srdif%").find(conversion.kind) != std::string_view::npos;
  if (!is_known || (conversion.precision && conversion.kind != 'f')) {
    throw EvaluationError(
        fmt::format("the conversion %{} is not supported; use %s, %r, %d, %f or %.2f", conversion.kind));
  }
  return conversion;
}

MarkedText converted(const Conversion& conversion, const Value& value, Budget& budget) {
  if (conversion.kind == 's') return printed(value, budget);
  if (conversion.kind == 'r') return representation(value, budget);
  const std::optional<Number> number = number_in(value);
  if (!number)
    throw EvaluationError(fmt::format("%{} needs a number, found {}", conversion.kind, value.type_name()));
  if (conversion.kind == 'f')
    return MarkedText(fmt::format("{:.{}f}", number->value, conversion.precision.value_or(6)));
  if (number->is_whole) return MarkedText(fmt::format("{}", number->whole));
  return MarkedText(fmt::format("{:.0f}", std::trunc(number->value)));
}

}  // namespace

MarkedText format_percent(const MarkedText& format, const Value& arguments, Budget& budget) {
  const std::string& pattern = format.text();
  const List* tuple = arguments.list();
  const bool is_tuple = tuple != nullptr && tuple->kind == List::Kind::tuple;
  const std::vector<Value> values = is_tuple ? tuple->items : std::vector<Value>{arguments};
  budget.spend(pattern.size());
  MarkedText out;
  std::size_t next = 0;
  for (std::size_t at = 0; at < pattern.size();) {
    if (pattern[at] != '%') {
      out.append(format, at++, 1);
      continue;
    }
    const Conversion conversion = read_conversion(pattern, ++at);
    if (conversion.kind == '%') {
      out.append(format, at - 1, 1);
      continue;
    }
    if (next == values.size())
      throw EvaluationError(fmt::format("the format has more conversions than its {} arguments", next));
    out.append(converted(conversion, values[next++], budget));
  }
  if (next != values.size())
    throw EvaluationError(
        fmt::format("the format has {} conversions, but {} arguments", next, values.size()));
  return out;
}

}  // namespace tp::jinja
