#include "model/checkpoint/printable.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace tp {
namespace {

unsigned char byte_at(std::string_view text, std::size_t at) {
  return at < text.size() ? static_cast<unsigned char>(text[at]) : 0xff;
}

// The bytes of the control character at `at`, 0 if it is none. In UTF-8 those from U+0080 to U+009F have two.
std::size_t control_size(std::string_view text, std::size_t at) {
  const unsigned char byte = byte_at(text, at);
  if (byte < 0x20 || byte == 0x7f) return 1;
  const unsigned char next = byte_at(text, at + 1);
  return byte == 0xc2 && next >= 0x80 && next < 0xa0 ? 2 : 0;
}

}  // namespace

std::string printable(std::string_view text, std::size_t longest) {
  const std::string shortened = text.size() <= longest ? std::string(text)
                                                       : fmt::format("{}...{}", text.substr(0, longest / 2),
                                                                     text.substr(text.size() - longest / 2));
  std::string result;
  for (std::size_t at = 0; at < shortened.size();) {
    const std::size_t size = control_size(shortened, at);
    result += size == 0 ? shortened[at] : '?';
    at += std::max<std::size_t>(size, 1);
  }
  return result;
}

std::string printable(std::span<const std::size_t> shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

}  // namespace tp
