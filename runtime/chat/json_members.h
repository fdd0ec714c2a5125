// Access to members of clients' JSON, which may have any type.
#pragma once

#include "model/files/json_text.h"

#include <string>

#include <nlohmann/json.hpp>

namespace tp {

// Null if the member is absent, or `object` is not an object.
inline nlohmann::ordered_json member_of(const nlohmann::ordered_json& object, const char* name) {
  return object.is_object() ? object.value(name, nlohmann::ordered_json()) : nlohmann::ordered_json();
}

// The `type` of an item, a part or a tool; empty if it is not a text.
inline std::string type_of(const nlohmann::ordered_json& object) {
  const nlohmann::ordered_json type = member_of(object, "type");
  return type.is_string() ? type.get<std::string>() : "";
}

// The beginning of a value as JSON, for messages.
inline std::string shown_part(const nlohmann::ordered_json& json) {
  constexpr std::size_t kMax = 200;
  std::string text = json_text(json);
  return text.size() <= kMax ? text : text.substr(0, kMax) + "...";
}

}  // namespace tp
