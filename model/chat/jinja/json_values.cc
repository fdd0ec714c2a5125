#include "model/chat/jinja/json_values.h"

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

namespace tp::jinja {
namespace {

using Json = nlohmann::ordered_json;
using TextMaker = MarkedText (*)(std::string text);

MarkedText own(std::string text) { return MarkedText(std::move(text)); }

Value from_json(const Json& json, TextMaker make_text, Heap& heap) {
  const Budget::Level level(heap.budget());
  switch (json.type()) {
    case Json::value_t::string:
      return make_text(json.get<std::string>());
    case Json::value_t::boolean:
      return json.get<bool>();
    case Json::value_t::number_float:
      return json.get<double>();
    case Json::value_t::number_integer:
      return json.get<std::int64_t>();
    case Json::value_t::number_unsigned: {
      const auto number = json.get<std::uint64_t>();
      // Tool schemas may contain unsigned 64-bit bounds.
      if (!std::in_range<std::int64_t>(number)) return static_cast<double>(number);
      return static_cast<std::int64_t>(number);
    }
    case Json::value_t::array: {
      std::vector<Value> items;
      for (const auto& item : json) items.push_back(from_json(item, make_text, heap));
      return heap.make_list(std::move(items));
    }
    case Json::value_t::object: {
      std::vector<std::pair<Value, Value>> members;
      for (const auto& [key, member] : json.items())
        members.emplace_back(make_text(key), from_json(member, make_text, heap));
      return heap.make_dict(std::move(members));
    }
    default:
      return None{};
  }
}

bool is_word(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
}

void take_role_as_own(const Value& message) {
  if (message.dict() == nullptr) return;
  for (auto& [name, value] : message.dict()->members) {
    if (name.is_text() && name.text() == "role" && value.is_text() && is_word(value.text()))
      value = Value(value.text());
  }
}

}  // namespace

Names own_variables(const Json& variables, Heap& heap) {
  Names names;
  for (const auto& [name, value] : variables.items()) names[name] = from_json(value, own, heap);
  return names;
}

Names input_variables(const Json& variables, Heap& heap) {
  Names names;
  for (const auto& [name, value] : variables.items()) names[name] = from_json(value, MarkedText::input, heap);
  const auto messages = names.find("messages");
  if (messages != names.end() && messages->second.list() != nullptr) {
    for (const Value& message : messages->second.list()->items) take_role_as_own(message);
  }
  return names;
}

}  // namespace tp::jinja
