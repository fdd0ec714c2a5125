#include "model/checkpoint/printable.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace tp {
namespace {

bool is_control(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte < 0x20 || byte == 0x7f;
}

}  // namespace

std::string printable(std::string_view text) {
  constexpr std::size_t longest = 160;
  std::string result(text.size() <= longest ? std::string(text)
                                            : fmt::format("{}...{}", text.substr(0, longest / 2),
                                                          text.substr(text.size() - longest / 2)));
  std::replace_if(result.begin(), result.end(), is_control, '?');
  return result;
}

std::string printable(std::span<const std::size_t> shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

}  // namespace tp
