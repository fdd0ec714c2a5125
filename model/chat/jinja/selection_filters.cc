// map, select, reject and similar filters, which apply filters and tests to elements.
#include "model/chat/jinja/library.h"

#include <algorithm>

namespace tp::jinja {
namespace {

// The arguments for the nested filter or test, whose name precedes them: positional arguments from `index`
// on, and all keywords.
Arguments others_from(Arguments& arguments, std::size_t index) {
  Arguments others;
  others.positional = arguments.rest(index);
  for (const auto& [name, value] : arguments.keywords)
    others.keywords.emplace_back(name, *arguments.find(arguments.positional.size(), name));
  return others;
}

// Here Jinja2 treats every false value as an empty sequence, even none and 0. Other filters refuse them.
std::vector<Value> elements_or_none(const Value& subject, Heap& heap) {
  return is_true(subject) ? elements_of(subject, heap.budget()) : std::vector<Value>();
}

// Accepts map('upper'), map(attribute='name'), map(attribute='name', default='').
Value map(const Value& subject, Arguments& arguments, Heap& heap) {
  const bool by_member = arguments.positional.empty();
  const Value& what = arguments.at(0, by_member ? "attribute" : "name");
  const Value* otherwise = by_member ? arguments.find(0, "default") : nullptr;
  const Arguments others = by_member ? Arguments() : others_from(arguments, 1);
  std::vector<Value> results;
  for (const Value& element : elements_or_none(subject, heap)) {
    heap.budget().spend(Budget::kElement);
    if (by_member) {
      Value member = member_at_path(element, what, heap);
      if (member.is_undefined() && otherwise != nullptr) member = *otherwise;
      results.push_back(std::move(member));
    } else {
      Arguments copy = others;
      results.push_back(apply_filter(require_text(what, "the filter's name"), element, copy, heap));
    }
  }
  return heap.make_list(std::move(results), List::Kind::generator);
}

// The elements for which a test of key(element) returns `wanted`. The argument at `index` names the test; by
// default it is truth.
template <class Key>
Value chosen(const Value& subject, Arguments& arguments, std::size_t index, bool wanted, Heap& heap,
             const Key& key) {
  const Value* test = arguments.find(index, "");
  const Arguments others = others_from(arguments, index + 1);
  std::vector<Value> kept;
  for (const Value& element : elements_or_none(subject, heap)) {
    heap.budget().spend(Budget::kElement);
    Arguments copy = others;
    const bool holds = test == nullptr
                           ? is_true(key(element))
                           : apply_test(require_text(*test, "the test's name"), key(element), copy, heap);
    if (holds == wanted) kept.push_back(element);
  }
  return heap.make_list(std::move(kept), List::Kind::generator);
}

template <bool wanted>
Value select(const Value& subject, Arguments& arguments, Heap& heap) {
  return chosen(subject, arguments, 0, wanted, heap, [](const Value& element) { return element; });
}

template <bool wanted>
Value select_by_member(const Value& subject, Arguments& arguments, Heap& heap) {
  const Value path = arguments.at(0, "attribute");
  return chosen(subject, arguments, 1, wanted, heap,
                [&](const Value& element) { return member_at_path(element, path, heap); });
}

constexpr Named<FilterFunction> kFilters[] = {{"map", map},
                                              {"reject", select<false>},
                                              {"rejectattr", select_by_member<false>},
                                              {"select", select<true>},
                                              {"selectattr", select_by_member<true>}};

}  // namespace

FilterFunction find_selection_filter(std::string_view name) { return find_named(kFilters, name); }

}  // namespace tp::jinja
