// References within a JSON document.
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace tp {

// The value at a JSON pointer, which may be percent-encoded; null if it does not exist. A pointer is empty or
// begins with a slash.
const nlohmann::ordered_json* find_pointer(const nlohmann::ordered_json& json, std::string_view pointer);

}  // namespace tp
