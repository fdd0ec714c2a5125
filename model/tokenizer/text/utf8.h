// UTF-8, the only text encoding in tp-infer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

namespace tp::utf8 {

// The replacement for ill-formed bytes.
inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

enum class Status : std::uint8_t {
  ok,
  invalid,   // no continuation of these bytes is a character
  truncated  // the text ends within a character
};

// The first character of a text. Unless `status` is `ok`, code_point is U+FFFD, and `length` is the length of
// the longest part that could begin a character ("maximal subpart" in the Unicode standard, at least one
// byte).
struct Character {
  char32_t code_point;
  std::size_t length;
  Status status;
};

// Reads the first character of a text that is not empty.
Character first_character(std::string_view text);

// Reads the last character of a well-formed text that is not empty.
char32_t last_character(std::string_view text);

// A text as a range of characters: `for (const auto [character, bytes] : Characters(text))`.
class Characters {
 public:
  explicit Characters(std::string_view text) : rest_(text) {}
  const Characters& begin() const { return *this; }
  std::default_sentinel_t end() const { return {}; }

  bool operator==(std::default_sentinel_t) const { return rest_.empty(); }
  void operator++() { rest_.remove_prefix(length_); }
  std::pair<char32_t, std::string_view> operator*() {
    const Character character = first_character(rest_);
    length_ = character.length;
    return {character.code_point, rest_.substr(0, length_)};
  }

 private:
  std::string_view rest_;
  std::size_t length_ = 0;
};

// Appends one character.
void append(std::string& text, char32_t code_point);

// Number of bytes before the first ill-formed part; all bytes if the text is well-formed.
std::size_t valid_length(std::string_view text);
bool is_valid(std::string_view text);

// Appends `text`, and replaces each maximal ill-formed part with U+FFFD, like WHATWG decoders and Rust's
// from_utf8_lossy.
void append_repaired(std::string& out, std::string_view text);

// Number of bytes at the end of `text` that may begin a character (0 to 3).
std::size_t incomplete_tail(std::string_view text);

}  // namespace tp::utf8
