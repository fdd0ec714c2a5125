// Filters of whole lists and dicts.
#include "model/chat/jinja/library.h"
#include "model/chat/jinja/operators.h"
#include "model/chat/jinja/printing.h"
#include "model/tokenizer/text/unicode.h"

#include <algorithm>

#include <fmt/format.h>

namespace tp::jinja {
namespace {

// The sort key: the element or its member `attribute`. Strings are converted to lower case unless
// `case_sensitive`.
Value comparison_key(const Value& value, const Value* attribute, bool case_sensitive, Heap& heap) {
  Value key = attribute == nullptr || attribute->is<None>() ? value : member_at_path(value, *attribute, heap);
  if (case_sensitive || !key.is_text()) return key;
  heap.budget().spend(key.text().size());
  return unicode::to_lower(key.text());
}

Value default_value(const Value& subject, Arguments& arguments, Heap&) {
  const Value* given = arguments.find(0, "default_value");
  const bool for_false_too = arguments.flag(1, "boolean");
  if (!subject.is_undefined() && (!for_false_too || is_true(subject))) return subject;
  return given == nullptr ? Value("") : *given;
}

Value length(const Value& subject, Arguments&, Heap& heap) {
  return Value::size(length_of(subject, heap.budget()));
}

Value first(const Value& subject, Arguments&, Heap& heap) {
  const std::vector<Value> elements = elements_of(subject, heap.budget());
  return elements.empty() ? Value::undefined("an empty list has no first element") : elements.front();
}

Value last(const Value& subject, Arguments&, Heap& heap) {
  const std::vector<Value> elements = elements_of(subject, heap.budget());
  return elements.empty() ? Value::undefined("an empty list has no last element") : elements.back();
}

Value list(const Value& subject, Arguments&, Heap& heap) {
  return heap.make_list(elements_of(subject, heap.budget()));
}

Value join(const Value& subject, Arguments& arguments, Heap& heap) {
  const Value* given = arguments.find(0, "d");
  const Value* attribute = arguments.find(1, "attribute");
  const MarkedText separator = given == nullptr ? MarkedText() : printed(*given, heap.budget());
  MarkedText out;
  bool is_first = true;
  for (const Value& element : elements_of(subject, heap.budget())) {
    const Value value = attribute == nullptr ? element : member_at_path(element, *attribute, heap);
    heap.budget().spend(separator.size());
    if (!is_first) out.append(separator);
    is_first = false;
    out.append(printed(value, heap.budget()));
  }
  return out;
}

// Sorts like Python: equal elements keep their order, even if the order is reversed.
void sort_by_key(std::vector<std::pair<Value, Value>>& keyed, bool reverse, Budget& budget) {
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
    return reverse ? less(b.first, a.first, budget) : less(a.first, b.first, budget);
  });
}

Value sort(const Value& subject, Arguments& arguments, Heap& heap) {
  const bool reverse = arguments.flag(0, "reverse");
  const bool case_sensitive = arguments.flag(1, "case_sensitive");
  const Value* attribute = arguments.find(2, "attribute");
  std::vector<std::pair<Value, Value>> keyed;
  for (const Value& element : elements_of(subject, heap.budget()))
    keyed.emplace_back(comparison_key(element, attribute, case_sensitive, heap), element);
  sort_by_key(keyed, reverse, heap.budget());
  std::vector<Value> sorted;
  for (auto& [key, value] : keyed) sorted.push_back(value);
  return heap.make_list(std::move(sorted));
}

Value dictsort(const Value& subject, Arguments& arguments, Heap& heap) {
  const bool case_sensitive = arguments.flag(0, "case_sensitive");
  const Value* by = arguments.find(1, "by");
  const bool reverse = arguments.flag(2, "reverse");
  const Dict* dict = subject.dict();
  if (dict == nullptr)
    throw EvaluationError(fmt::format("dictsort needs a dict, found {}", subject.type_name()));
  const bool by_value = by != nullptr && require_text(*by, "by") == "value";
  std::vector<std::pair<Value, Value>> keyed;
  for (const auto& [name, value] : dict->members) {
    keyed.emplace_back(comparison_key(by_value ? value : name, nullptr, case_sensitive, heap),
                       heap.make_list({name, value}, List::Kind::tuple));
  }
  sort_by_key(keyed, reverse, heap.budget());
  std::vector<Value> sorted;
  for (auto& [key, pair] : keyed) sorted.push_back(pair);
  return heap.make_list(std::move(sorted));
}

Value items(const Value& subject, Arguments&, Heap& heap) {
  std::vector<Value> pairs;
  if (const Dict* dict = subject.dict()) {
    for (const auto& [key, value] : dict->members)
      pairs.emplace_back(heap.make_list({key, value}, List::Kind::tuple));
  } else if (!subject.is_undefined()) {
    throw EvaluationError(fmt::format("items needs a dict, found {}", subject.type_name()));
  }
  return heap.make_list(std::move(pairs), List::Kind::generator);
}

Value reverse(const Value& subject, Arguments&, Heap& heap) {
  std::vector<Value> elements = elements_of(subject, heap.budget());
  std::reverse(elements.begin(), elements.end());
  if (!subject.is_text()) return heap.make_list(std::move(elements), List::Kind::generator);
  MarkedText out;
  for (const Value& element : elements) out.append(element.marked_text());
  return out;
}

Value unique(const Value& subject, Arguments& arguments, Heap& heap) {
  const bool case_sensitive = arguments.flag(0, "case_sensitive");
  const Value* attribute = arguments.find(1, "attribute");
  std::vector<Value> keys;
  std::vector<Value> kept;
  for (const Value& element : elements_of(subject, heap.budget())) {
    Value key = comparison_key(element, attribute, case_sensitive, heap);
    const bool known = std::any_of(keys.begin(), keys.end(),
                                   [&](const Value& other) { return equal(key, other, heap.budget()); });
    if (known) continue;
    keys.push_back(std::move(key));
    kept.push_back(element);
  }
  return heap.make_list(std::move(kept), List::Kind::generator);
}

template <bool largest>
Value extreme(const Value& subject, Arguments& arguments, Heap& heap) {
  const bool case_sensitive = arguments.flag(0, "case_sensitive");
  const Value* attribute = arguments.find(1, "attribute");
  const std::vector<Value> elements = elements_of(subject, heap.budget());
  if (elements.empty()) return Value::undefined("an empty list has no smallest and no largest element");
  const auto key_of = [&](const Value& value) {
    return comparison_key(value, attribute, case_sensitive, heap);
  };
  const Value* best = &elements.front();
  for (const Value& element : elements) {
    const bool better = largest ? less(key_of(*best), key_of(element), heap.budget())
                                : less(key_of(element), key_of(*best), heap.budget());
    if (better) best = &element;
  }
  return *best;
}

Value sum(const Value& subject, Arguments& arguments, Heap& heap) {
  const Value* attribute = arguments.find_given(0, "attribute");
  const Value* start = arguments.find(1, "start");
  Value total = start == nullptr ? Value(std::int64_t{0}) : *start;
  for (const Value& element : elements_of(subject, heap.budget())) {
    const Value item = attribute == nullptr ? element : member_at_path(element, *attribute, heap);
    total = apply_operator("+", total, item, heap);
  }
  return total;
}

// Divides elements into rows of equal size. `fill_with`, if given, fills up the last row.
Value batch(const Value& subject, Arguments& arguments, Heap& heap) {
  const std::int64_t size = integer_of(arguments.at(0, "linecount"), "linecount");
  const Value* fill = arguments.find_given(1, "fill_with");
  if (size < 1) throw EvaluationError("batch needs a linecount of at least 1");
  std::vector<Value> rows;
  std::vector<Value> row;
  const auto finish_row = [&] { rows.emplace_back(heap.make_list(std::exchange(row, {}))); };
  for (const Value& element : elements_of(subject, heap.budget())) {
    row.push_back(element);
    if (static_cast<std::int64_t>(row.size()) == size) finish_row();
  }
  if (!row.empty()) {
    while (fill != nullptr && static_cast<std::int64_t>(row.size()) < size) {
      heap.budget().spend(Budget::kElement);
      row.push_back(*fill);
    }
    finish_row();
  }
  return heap.make_list(std::move(rows), List::Kind::generator);
}

constexpr Named<FilterFunction> kFilters[] = {
    {"batch", batch},        {"count", length},    {"d", default_value}, {"default", default_value},
    {"dictsort", dictsort},  {"first", first},     {"items", items},     {"join", join},
    {"last", last},          {"length", length},   {"list", list},       {"max", extreme<true>},
    {"min", extreme<false>}, {"reverse", reverse}, {"sort", sort},       {"sum", sum},
    {"unique", unique}};

}  // namespace

FilterFunction find_list_filter(std::string_view name) { return find_named(kFilters, name); }

}  // namespace tp::jinja
