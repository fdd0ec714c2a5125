#include "model/chat/jinja/value.h"

#include "model/tokenizer/text/utf8.h"

#include <algorithm>

#include <fmt/format.h>

namespace tp::jinja {
namespace {

bool equal_members(const Dict& a, const Dict& b, Budget& budget) {
  if (a.members.size() != b.members.size()) return false;
  return std::all_of(a.members.begin(), a.members.end(), [&](const auto& member) {
    const Value* other = find_member(b, member.first, budget);
    return other != nullptr && equal(member.second, *other, budget);
  });
}

bool equal_items(const List& a, const List& b, Budget& budget) {
  return a.kind == b.kind && a.kind != List::Kind::generator &&
         std::equal(a.items.begin(), a.items.end(), b.items.begin(), b.items.end(),
                    [&](const Value& x, const Value& y) { return equal(x, y, budget); });
}

}  // namespace

std::string_view Value::type_name() const {
  static constexpr std::string_view kNames[] = {"undefined", "NoneType", "bool", "int",
                                                "float",     "str",      "list", "dict",
                                                "Namespace", "function", "loop"};
  if (const List* items = list()) {
    static constexpr std::string_view kKinds[] = {"list", "tuple", "range", "generator"};
    return kKinds[static_cast<std::size_t>(items->kind)];
  }
  return kNames[value_.index()];
}

const Value* Arguments::find(std::size_t index, std::string_view name) {
  if (index < positional.size()) {
    taken_positional_ = std::max(taken_positional_, index + 1);
    return &positional[index];
  }
  for (const auto& [keyword, value] : keywords) {
    if (keyword != name) continue;
    taken_keywords_.push_back(keyword);
    return &value;
  }
  return nullptr;
}

const Value& Arguments::at(std::size_t index, std::string_view name) {
  const Value* value = find(index, name);
  if (value == nullptr) throw EvaluationError(fmt::format("the argument '{}' is missing", name));
  return *value;
}

const Value* Arguments::find_given(std::size_t index, std::string_view name) {
  const Value* value = find(index, name);
  return value == nullptr || value->is<None>() ? nullptr : value;
}

bool Arguments::flag(std::size_t index, std::string_view name) {
  const Value* value = find(index, name);
  return value != nullptr && is_true(*value);
}

std::int64_t Arguments::integer_or(std::size_t index, std::string_view name, std::int64_t otherwise) {
  const Value* value = find(index, name);
  return value == nullptr ? otherwise : integer_of(*value, name);
}

std::vector<Value> Arguments::rest(std::size_t index) {
  taken_positional_ = positional.size();
  if (index >= positional.size()) return {};
  return {positional.begin() + static_cast<std::ptrdiff_t>(index), positional.end()};
}

void Arguments::check_all_taken() const {
  if (taken_positional_ < positional.size()) {
    throw EvaluationError(
        fmt::format("expected at most {} arguments, found {}", taken_positional_, positional.size()));
  }
  for (const auto& [keyword, value] : keywords) {
    if (std::find(taken_keywords_.begin(), taken_keywords_.end(), keyword) == taken_keywords_.end())
      throw EvaluationError(fmt::format("there is no argument '{}', or it is given twice", keyword));
  }
}

void Budget::exhausted() {
  throw EvaluationError("the template does more work than any conversation needs; is it in an endless loop?");
}

void Budget::too_deep() {
  throw EvaluationError(fmt::format("calls or values are nested deeper than {} levels", kDepth));
}

List* Heap::make_list(std::vector<Value> items, List::Kind kind) {
  budget_.spend((items.size() + 1) * Budget::kElement);
  return &lists_.emplace_back(List{std::move(items), kind});
}

Dict* Heap::make_dict(std::vector<std::pair<Value, Value>> members) {
  budget_.spend((members.size() + 1) * Budget::kElement);
  return &dicts_.emplace_back(Dict{std::move(members)});
}

Namespace* Heap::make_namespace() {
  budget_.spend(Budget::kElement);
  return &namespaces_.emplace_back();
}

Callable* Heap::make_callable(std::function<Value(Arguments&)> call) {
  budget_.spend(Budget::kElement);
  return &callables_.emplace_back(Callable{std::move(call)});
}

Callable* Heap::make_function(std::function<Value(Arguments&)> call) {
  return make_callable([call = std::move(call)](Arguments& arguments) {
    Value result = call(arguments);
    arguments.check_all_taken();
    return result;
  });
}

LoopState* Heap::make_loop(std::vector<Value> items) {
  budget_.spend(Budget::kElement);
  return &loops_.emplace_back(LoopState{std::move(items)});
}

std::optional<double> number_of(const Value& value) {
  if (const auto integer = whole_number_of(value)) return static_cast<double>(*integer);
  const auto* number = value.get_if<double>();
  return number == nullptr ? std::nullopt : std::optional(*number);
}

std::optional<std::int64_t> whole_number_of(const Value& value) {
  if (const auto* boolean = value.get_if<bool>()) return *boolean ? 1 : 0;
  const auto* integer = value.get_if<std::int64_t>();
  return integer == nullptr ? std::nullopt : std::optional(*integer);
}

bool is_true(const Value& value) {
  if (value.is_undefined() || value.is<None>()) return false;
  if (const std::optional<double> number = number_of(value)) return *number != 0.0;
  if (value.is_text()) return !value.text().empty();
  if (const List* list = value.list()) return !list->items.empty() || list->kind == List::Kind::generator;
  if (value.dict() != nullptr) return !value.dict()->members.empty();
  return true;
}

bool equal(const Value& a, const Value& b, Budget& budget) {
  const Budget::Level level(budget);
  budget.spend(Budget::kStep);
  const std::optional<std::int64_t> whole_a = whole_number_of(a);
  const std::optional<std::int64_t> whole_b = whole_number_of(b);
  if (whole_a && whole_b) return *whole_a == *whole_b;
  const std::optional<double> number_a = number_of(a);
  const std::optional<double> number_b = number_of(b);
  if (number_a && number_b) return *number_a == *number_b;
  if (a.variant().index() != b.variant().index()) return false;
  if (a.is_undefined() || a.is<None>()) return true;
  if (a.is_text()) {
    budget.spend(std::min(a.text().size(), b.text().size()));
    return a.text() == b.text();
  }
  if (a.list() != nullptr) return a.list() == b.list() || equal_items(*a.list(), *b.list(), budget);
  if (a.dict() != nullptr) return equal_members(*a.dict(), *b.dict(), budget);
  return a.pointer<Namespace>() == b.pointer<Namespace>() && a.pointer<Callable>() == b.pointer<Callable>() &&
         a.pointer<LoopState>() == b.pointer<LoopState>();
}

bool less(const Value& a, const Value& b, Budget& budget) {
  const Budget::Level level(budget);
  budget.spend(Budget::kStep);
  const std::optional<std::int64_t> whole_a = whole_number_of(a);
  const std::optional<std::int64_t> whole_b = whole_number_of(b);
  if (whole_a && whole_b) return *whole_a < *whole_b;
  const std::optional<double> number_a = number_of(a);
  const std::optional<double> number_b = number_of(b);
  if (number_a && number_b) return *number_a < *number_b;
  if (a.is_text() && b.is_text()) {
    budget.spend(std::min(a.text().size(), b.text().size()));
    return a.text() < b.text();  // UTF-8 bytes sort like code points
  }
  const List* list_a = a.list();
  const List* list_b = b.list();
  if (list_a == nullptr || list_b == nullptr || list_a->kind != list_b->kind) {
    throw EvaluationError(
        fmt::format("values of the types {} and {} have no order", a.type_name(), b.type_name()));
  }
  const std::size_t common = std::min(list_a->items.size(), list_b->items.size());
  for (std::size_t i = 0; i < common; ++i) {
    if (!equal(list_a->items[i], list_b->items[i], budget))
      return less(list_a->items[i], list_b->items[i], budget);
  }
  return list_a->items.size() < list_b->items.size();
}

const Value* find_member(const Dict& dict, const Value& key, Budget& budget) {
  if (key.is_text()) return find_text_member(dict, key.text(), budget);
  for (const auto& [name, value] : dict.members) {
    if (equal(name, key, budget)) return &value;
  }
  return nullptr;
}

const Value* find_text_member(const Dict& dict, std::string_view key, Budget& budget) {
  budget.spend(dict.members.size());
  for (const auto& [name, value] : dict.members) {
    if (name.is_text() && name.text() == key) return &value;
  }
  return nullptr;
}

std::vector<Value> elements_of(const Value& value, Budget& budget) {
  std::vector<Value> elements;
  if (List* list = value.list()) {
    budget.spend(list->items.size() * Budget::kElement);
    if (list->kind == List::Kind::generator)
      elements = std::move(list->items);
    else
      elements = list->items;
  } else if (const Dict* dict = value.dict()) {
    budget.spend(dict->members.size() * Budget::kElement);
    for (const auto& [key, member] : dict->members) elements.push_back(key);
  } else if (value.is_text()) {
    for (const auto [character, bytes] : utf8::Characters(value.text())) {
      budget.spend(Budget::kElement);
      elements.emplace_back(value.marked_text().part(bytes));
    }
  } else if (!value.is_undefined()) {
    throw EvaluationError(fmt::format("a value of type {} has no elements", value.type_name()));
  }
  return elements;
}

std::size_t length_of(const Value& value, Budget& budget) {
  if (value.is_undefined()) return 0;
  const List* list = value.list();
  if (list != nullptr && list->kind != List::Kind::generator) return list->items.size();
  if (const Dict* dict = value.dict()) return dict->members.size();
  if (!value.is_text())
    throw EvaluationError(fmt::format("a value of type {} has no length", value.type_name()));
  const std::string& text = value.text();
  budget.spend(text.size());
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char byte) { return (byte & 0xC0) != 0x80; }));
}

std::int64_t integer_of(const Value& value, std::string_view name) {
  if (const std::optional<std::int64_t> integer = whole_number_of(value)) return *integer;
  throw EvaluationError(fmt::format("{} must be a whole number, found {}", name, value.type_name()));
}

const std::string& require_text(const Value& value, std::string_view name) {
  return marked_text_of(value, name).text();
}

const MarkedText& marked_text_of(const Value& value, std::string_view name) {
  if (!value.is_text())
    throw EvaluationError(fmt::format("{} must be a text, found {}", name, value.type_name()));
  return value.marked_text();
}

}  // namespace tp::jinja
