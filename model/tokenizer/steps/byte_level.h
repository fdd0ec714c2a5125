// The byte-level alphabet of GPT-2: 256 printable characters that stand for the 256 bytes, so that a
// vocabulary of strings can hold any bytes. Printable ASCII and most of Latin-1 stand for themselves.
#pragma once

#include <string>
#include <string_view>

namespace tp::byte_level {

// Appends the characters that stand for the bytes of `text`.
void append_encoded(std::string& out, std::string_view text);

// Appends the bytes that `token` stands for. A token with a character outside of the alphabet (an added
// token) stands for itself.
void append_decoded(std::string& out, std::string_view token);

}  // namespace tp::byte_level
