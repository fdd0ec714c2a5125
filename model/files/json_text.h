// JSON as text.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace tp {

// `indent` < 0: on one line. Bytes that are not UTF-8, for example in file names, become U+FFFD.
template <class Json = nlohmann::ordered_json>
std::string json_text(const Json& json, int indent = -1) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace tp
