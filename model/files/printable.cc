#include "model/files/printable.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace tp {
namespace {

unsigned char byte_at(std::string_view text, std::size_t at) {
  return at < text.size() ? static_cast<unsigned char>(text[at]) : 0xff;
}

// Bytes of the control character at `at`; 0 if it is not one. U+0080 to U+009F have two bytes in UTF-8.
std::size_t control_size(std::string_view text, std::size_t at) {
  const unsigned char byte = byte_at(text, at);
  if (byte < 0x20 || byte == 0x7f) return 1;
  const unsigned char next = byte_at(text, at + 1);
  return byte == 0xc2 && next >= 0x80 && next < 0xa0 ? 2 : 0;
}

// Bytes of the character at `at` if it changes the direction of text or separates lines (U+200E, U+200F,
// U+2028 to U+202E, U+2066 to U+2069); 0 otherwise.
std::size_t direction_size(std::string_view text, std::size_t at) {
  if (byte_at(text, at) != 0xe2) return 0;
  const unsigned char second = byte_at(text, at + 1);
  const unsigned char third = byte_at(text, at + 2);
  const bool turns =
      (second == 0x80 && (third == 0x8e || third == 0x8f || (third >= 0xa8 && third <= 0xae))) ||
      (second == 0x81 && third >= 0xa6 && third <= 0xa9);
  return turns ? 3 : 0;
}

// Replaces every character for which size_of(text, at) is not 0 by '?'. size_of returns its number of bytes.
template <class Size>
std::string replaced(std::string_view text, Size&& size_of) {
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t size = size_of(text, at);
    result += size == 0 ? text[at] : '?';
    at += std::max<std::size_t>(size, 1);
  }
  return result;
}

}  // namespace

std::string printable(std::string_view text, std::size_t longest) {
  const std::string shortened = text.size() <= longest ? std::string(text)
                                                       : fmt::format("{}...{}", text.substr(0, longest / 2),
                                                                     text.substr(text.size() - longest / 2));
  return replaced(shortened, [](std::string_view all, std::size_t at) {
    return std::max(control_size(all, at), direction_size(all, at));
  });
}

std::string without_controls(std::string_view text) {
  return replaced(text, [](std::string_view all, std::size_t at) {
    return all[at] == '\n' || all[at] == '\t' ? 0 : control_size(all, at);
  });
}

std::string printable(std::span<const std::size_t> shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

}  // namespace tp
