#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace tp {

// The number that the whole text is, or none. Blanks and a plus sign are not part of numbers. `format` is an
// argument of std::from_chars: the base of an integer.
template <class Number, class... Format>
std::optional<Number> parse_number(std::string_view text, Format... format) {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, number, format...);
  if (error != std::errc() || stopped != end) return std::nullopt;
  return number;
}

}  // namespace tp
