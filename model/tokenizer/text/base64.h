#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tp {

// Decodes base64. Returns nullopt if `text` is not base64.
std::optional<std::string> decoded_base64(std::string_view text);

// Encodes bytes as base64.
std::string base64(std::string_view bytes);

}  // namespace tp
