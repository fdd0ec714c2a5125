// JSON as results are written.
#pragma once

#include <string>

namespace tp {

// `indent` < 0: on one line. Bytes that are not UTF-8, which names of files may have, become U+FFFD.
template <class Json>
std::string json_text(const Json& json, int indent = -1) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace tp
