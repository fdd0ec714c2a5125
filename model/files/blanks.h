// Blanks in models' texts: the white space of JSON.
#pragma once

#include <algorithm>
#include <string_view>

namespace tp {

inline constexpr std::string_view kBlanks = " \n\t\r";

inline bool is_blank(char byte) { return kBlanks.find(byte) != kBlanks.npos; }

inline std::string_view without_trailing_blanks(std::string_view text) {
  return text.substr(0, text.find_last_not_of(kBlanks) + 1);
}

inline std::string_view without_leading_blanks(std::string_view text) {
  return text.substr(std::min(text.find_first_not_of(kBlanks), text.size()));
}

inline std::string_view without_blanks(std::string_view text) {
  return without_trailing_blanks(without_leading_blanks(text));
}

}  // namespace tp
