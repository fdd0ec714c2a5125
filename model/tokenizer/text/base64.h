#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tp {

// The bytes of a text in base64; nothing if it is none.
std::optional<std::string> decoded_base64(std::string_view text);

// The text that stands for bytes.
std::string base64(std::string_view bytes);

}  // namespace tp
