// Tests: `x is ...`
#include "model/chat/jinja/library.h"
#include "model/chat/jinja/operators.h"
#include "model/chat/jinja/printing.h"
#include "model/chat/jinja/text_methods.h"

namespace tp::jinja {
namespace {

bool is_defined(const Value& value, Arguments&, Heap&) { return !value.is_undefined(); }
bool is_undefined(const Value& value, Arguments&, Heap&) { return value.is_undefined(); }
bool is_none(const Value& value, Arguments&, Heap&) { return value.is<None>(); }
bool is_string(const Value& value, Arguments&, Heap&) { return value.is_text(); }
bool is_boolean(const Value& value, Arguments&, Heap&) { return value.is<bool>(); }
bool is_integer(const Value& value, Arguments&, Heap&) { return value.is<std::int64_t>(); }
bool is_float(const Value& value, Arguments&, Heap&) { return value.is<double>(); }
bool is_mapping(const Value& value, Arguments&, Heap&) { return value.dict() != nullptr; }

bool is_number(const Value& value, Arguments&, Heap&) {
  return value.is<std::int64_t>() || value.is<double>() || value.is<bool>();
}

// An undefined value is iterable, like an empty list.
bool is_iterable(const Value& value, Arguments&, Heap&) {
  return value.is_text() || value.is_undefined() || value.dict() != nullptr || value.list() != nullptr;
}

bool is_sequence(const Value& value, Arguments& arguments, Heap& heap) {
  const bool is_generator = value.list() != nullptr && value.list()->kind == List::Kind::generator;
  return is_iterable(value, arguments, heap) && !is_generator;
}

bool is_callable(const Value& value, Arguments&, Heap&) {
  // Jinja2 considers undefined values callable, although a call fails.
  return value.pointer<Callable>() != nullptr || value.pointer<LoopState>() != nullptr ||
         value.is_undefined();
}

template <bool wanted>
bool is_constant(const Value& value, Arguments&, Heap&) {
  const bool* boolean = value.get_if<bool>();
  return boolean != nullptr && *boolean == wanted;
}

template <std::int64_t remainder>
bool is_odd_or_even(const Value& value, Arguments&, Heap&) {
  return (integer_of(value, "the value") & 1) == remainder;
}

bool is_divisible(const Value& value, Arguments& arguments, Heap& heap) {
  const Value rest = apply_operator("%", value, arguments.at(0, "num"), heap);
  return equal(rest, std::int64_t{0}, heap.budget());
}

bool is_in(const Value& value, Arguments& arguments, Heap& heap) {
  return compare("in", value, arguments.at(0, "seq"), heap.budget());
}

// Tests identity, which is stronger than equality for lists and dicts.
bool is_same(const Value& value, Arguments& arguments, Heap& heap) {
  const Value& other = arguments.at(0, "other");
  if (value.variant().index() != other.variant().index()) return false;
  if (value.list() != nullptr || value.dict() != nullptr)
    return value.list() == other.list() && value.dict() == other.dict();
  return equal(value, other, heap.budget());
}

bool is_lower(const Value& value, Arguments& arguments, Heap& heap) {
  return is_true(find_text_method("islower")(printed(value, heap.budget()), arguments, heap));
}

bool is_upper(const Value& value, Arguments& arguments, Heap& heap) {
  return is_true(find_text_method("isupper")(printed(value, heap.budget()), arguments, heap));
}

// Operators, which are tests with several names.
constexpr const char kEq[] = "==";
constexpr const char kNe[] = "!=";
constexpr const char kLt[] = "<";
constexpr const char kLe[] = "<=";
constexpr const char kGt[] = ">";
constexpr const char kGe[] = ">=";

template <const char* operation>
bool compares(const Value& value, Arguments& arguments, Heap& heap) {
  return compare(operation, value, arguments.at(0, "other"), heap.budget());
}

constexpr Named<TestFunction> kTests[] = {{"!=", compares<kNe>},
                                          {"<", compares<kLt>},
                                          {"<=", compares<kLe>},
                                          {"==", compares<kEq>},
                                          {">", compares<kGt>},
                                          {">=", compares<kGe>},
                                          {"boolean", is_boolean},
                                          {"callable", is_callable},
                                          {"defined", is_defined},
                                          {"divisibleby", is_divisible},
                                          {"eq", compares<kEq>},
                                          {"equalto", compares<kEq>},
                                          {"even", is_odd_or_even<0>},
                                          {"false", is_constant<false>},
                                          {"float", is_float},
                                          {"ge", compares<kGe>},
                                          {"greaterthan", compares<kGt>},
                                          {"gt", compares<kGt>},
                                          {"in", is_in},
                                          {"integer", is_integer},
                                          {"iterable", is_iterable},
                                          {"le", compares<kLe>},
                                          {"lessthan", compares<kLt>},
                                          {"lower", is_lower},
                                          {"lt", compares<kLt>},
                                          {"mapping", is_mapping},
                                          {"ne", compares<kNe>},
                                          {"none", is_none},
                                          {"number", is_number},
                                          {"odd", is_odd_or_even<1>},
                                          {"sameas", is_same},
                                          {"sequence", is_sequence},
                                          {"string", is_string},
                                          {"true", is_constant<true>},
                                          {"undefined", is_undefined},
                                          {"upper", is_upper}};

}  // namespace

TestFunction find_test(std::string_view name) { return find_named(kTests, name); }

}  // namespace tp::jinja
