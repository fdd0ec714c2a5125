// References inside of a JSON document.
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace tp {

// The text of a URI's part: %25 is a percent sign. Other text stays, since not everyone encodes.
std::string percent_decoded(std::string_view text);

// The value at a JSON pointer, which may be percent-encoded; null if there is none. A pointer is empty or
// begins with a slash.
const nlohmann::ordered_json* find_pointer(const nlohmann::ordered_json& json, std::string_view pointer);

}  // namespace tp
