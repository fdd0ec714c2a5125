#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace tp {

// The reason why nlohmann-json refused a text or a value, in our words: "line 1, column 4: expected a value,
// found the end of the text". It never quotes the text, which may be a client's.
std::string json_fault(const nlohmann::json::exception& error);

}  // namespace tp
