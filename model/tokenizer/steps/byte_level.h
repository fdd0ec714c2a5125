// GPT-2's byte-level alphabet: 256 printable characters stand for the 256 bytes, so that a vocabulary of
// strings can contain any bytes. Printable ASCII and most of Latin-1 stand for themselves.
#pragma once

#include <string>
#include <string_view>

namespace tp::byte_level {

// Appends the characters of the bytes of `text`.
void append_encoded(std::string& out, std::string_view text);

// Appends the bytes of `token`. A token with a character outside the alphabet (an added token) is appended
// unchanged.
void append_decoded(std::string& out, std::string_view token);

}  // namespace tp::byte_level
