#include "model/chat/jinja/methods.h"

#include "model/chat/jinja/text_methods.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

namespace tp::jinja {
namespace {

// Methods that change a dict. Hugging Face's sandbox forbids them, too.
constexpr std::array<std::string_view, 6> kForbiddenOfDict = {"clear",   "fromkeys",   "pop",
                                                              "popitem", "setdefault", "update"};

Value checked(TextMethod method, const Value& self, Arguments& arguments, Heap& heap) {
  heap.budget().spend(self.text().size());
  Value result = method(self.marked_text(), arguments, heap);
  arguments.check_all_taken();
  return result;
}

Value items_of(const Dict& dict, Heap& heap) {
  std::vector<Value> items;
  for (const auto& [key, value] : dict.members)
    items.emplace_back(heap.make_list({key, value}, List::Kind::tuple));
  return heap.make_list(std::move(items));
}

Value keys_of(const Dict& dict, Heap& heap) {
  std::vector<Value> keys;
  for (const auto& [key, value] : dict.members) keys.push_back(key);
  return heap.make_list(std::move(keys));
}

Value values_of(const Dict& dict, Heap& heap) {
  std::vector<Value> values;
  for (const auto& [key, value] : dict.members) values.push_back(value);
  return heap.make_list(std::move(values));
}

Value get(const Dict& dict, Arguments& arguments, Heap& heap) {
  const Value* member = find_member(dict, arguments.at(0, "key"), heap.budget());
  const Value* otherwise = arguments.find(1, "default");
  if (member != nullptr) return *member;
  return otherwise != nullptr ? *otherwise : None{};
}

std::optional<Value> dict_method(const Dict& dict, const std::string& name, Heap& heap) {
  if (name == "items") return heap.make_function([&](Arguments&) { return items_of(dict, heap); });
  if (name == "keys") return heap.make_function([&](Arguments&) { return keys_of(dict, heap); });
  if (name == "values") return heap.make_function([&](Arguments&) { return values_of(dict, heap); });
  if (name == "get")
    return heap.make_function([&](Arguments& arguments) { return get(dict, arguments, heap); });
  if (name == "copy") return heap.make_function([&](Arguments&) { return heap.make_dict(dict.members); });
  if (std::find(kForbiddenOfDict.begin(), kForbiddenOfDict.end(), name) != kForbiddenOfDict.end())
    throw EvaluationError(fmt::format("a template may not call '{}' of a dict", name));
  return std::nullopt;
}

Value pop(List& list, Arguments& arguments) {
  const Value* given = arguments.find(0, "index");
  const auto size = static_cast<std::int64_t>(list.items.size());
  std::int64_t index = given == nullptr ? -1 : integer_of(*given, "the index");
  if (index < 0) index += size;
  if (index < 0 || index >= size) throw EvaluationError("pop: the list has no such element");
  const Value value = list.items[static_cast<std::size_t>(index)];
  list.items.erase(list.items.begin() + static_cast<std::ptrdiff_t>(index));
  return value;
}

std::int64_t index_in(const List& list, const Value& wanted, Budget& budget) {
  const auto found = std::find_if(list.items.begin(), list.items.end(),
                                  [&](const Value& item) { return equal(item, wanted, budget); });
  if (found == list.items.end()) throw EvaluationError("index: the list has no such element");
  return found - list.items.begin();
}

std::optional<Value> list_method(List& list, const std::string& name, Heap& heap) {
  if (name == "append" && list.kind == List::Kind::list) {
    return heap.make_function([&](Arguments& arguments) {
      heap.budget().spend(Budget::kElement);
      list.items.push_back(arguments.at(0, "object"));
      return None{};
    });
  }
  if (name == "pop" && list.kind == List::Kind::list) {
    return heap.make_function([&](Arguments& arguments) {
      heap.budget().spend(list.items.size());
      return pop(list, arguments);
    });
  }
  if (name == "index") {
    return heap.make_function(
        [&](Arguments& arguments) { return index_in(list, arguments.at(0, "value"), heap.budget()); });
  }
  if (name == "count") {
    return heap.make_function([&](Arguments& arguments) -> Value {
      const Value& wanted = arguments.at(0, "value");
      return std::count_if(list.items.begin(), list.items.end(),
                           [&](const Value& item) { return equal(item, wanted, heap.budget()); });
    });
  }
  return std::nullopt;
}

Value cycle(const LoopState& loop, Arguments& arguments) {
  const std::vector<Value> values = arguments.rest(0);
  if (values.empty()) throw EvaluationError("loop.cycle needs values");
  return values[loop.index % values.size()];
}

// Whether the values differ from the values of the previous call.
Value changed(LoopState& loop, Arguments& arguments, Budget& budget) {
  std::vector<Value> values = arguments.rest(0);
  const bool same =
      loop.has_changed &&
      std::equal(values.begin(), values.end(), loop.last_changed.begin(), loop.last_changed.end(),
                 [&](const Value& a, const Value& b) { return equal(a, b, budget); });
  loop.has_changed = true;
  loop.last_changed = std::move(values);
  return !same;
}

std::optional<Value> loop_member(LoopState& loop, const std::string& name, Heap& heap) {
  const std::size_t size = loop.items.size();
  if (name == "index") return Value::size(loop.index + 1);
  if (name == "index0") return Value::size(loop.index);
  if (name == "revindex") return Value::size(size - loop.index);
  if (name == "revindex0") return Value::size(size - loop.index - 1);
  if (name == "first") return loop.index == 0;
  if (name == "last") return loop.index + 1 == size;
  if (name == "length") return Value::size(size);
  if (name == "depth") return Value::size(loop.depth);
  if (name == "depth0") return Value::size(loop.depth - 1);
  if (name == "previtem")
    return loop.index > 0 ? loop.items[loop.index - 1]
                          : Value::undefined("the first round has no loop.previtem");
  if (name == "nextitem") {
    return loop.index + 1 < size ? loop.items[loop.index + 1]
                                 : Value::undefined("the last round has no loop.nextitem");
  }
  if (name == "cycle")
    return heap.make_function([&](Arguments& arguments) { return cycle(loop, arguments); });
  if (name == "changed")
    return heap.make_function([&](Arguments& arguments) { return changed(loop, arguments, heap.budget()); });
  return std::nullopt;
}

}  // namespace

std::optional<Value> find_method(const Value& value, const std::string& name, Heap& heap) {
  if (value.is_text()) {
    const TextMethod method = find_text_method(name);
    if (method == nullptr) return std::nullopt;
    return heap.make_callable(
        [value, method, &heap](Arguments& arguments) { return checked(method, value, arguments, heap); });
  }
  if (Dict* dict = value.dict()) return dict_method(*dict, name, heap);
  if (List* list = value.list()) return list_method(*list, name, heap);
  if (LoopState* loop = value.pointer<LoopState>()) return loop_member(*loop, name, heap);
  return std::nullopt;
}

}  // namespace tp::jinja
