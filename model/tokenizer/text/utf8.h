// UTF-8, the one encoding of text in tp-infer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tp::utf8 {

// What ill-formed bytes become.
inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

enum class Status : std::uint8_t {
  ok,
  invalid,   // no continuation can make a character of these bytes
  truncated  // the text ends before the character does
};

// The first character of a text. Unless the status is `ok`, `length` is that of the longest part that could
// begin a character ("maximal subpart" in the Unicode standard, at least one byte) and code_point is U+FFFD.
struct Character {
  char32_t code_point;
  std::size_t length;
  Status status;
};

// Reads the first character of a text that is not empty.
Character first_character(std::string_view text);

// Reads the last character of a well-formed text that is not empty.
char32_t last_character(std::string_view text);

// Appends one character.
void append(std::string& text, char32_t code_point);

// Bytes of the text before the first that is not UTF-8; all if it is well-formed.
std::size_t valid_length(std::string_view text);
bool is_valid(std::string_view text);

// Appends `text` with each maximal ill-formed part replaced by U+FFFD, as WHATWG decoders and Rust's
// from_utf8_lossy do.
void append_repaired(std::string& out, std::string_view text);

// Bytes at the end of `text` that may be the beginning of a character (0 to 3).
std::size_t incomplete_tail(std::string_view text);

}  // namespace tp::utf8
