#include "model/files/percent_decoded.h"

#include "model/files/parse_number.h"

#include <cstddef>

namespace tp {

std::string percent_decoded(std::string_view text) {
  std::string decoded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool may_be = text[i] == '%' && i + 2 < text.size();
    const auto byte = may_be ? parse_number<unsigned>(text.substr(i + 1, 2), 16) : std::nullopt;
    decoded.push_back(byte ? static_cast<char>(*byte) : text[i]);
    i += byte ? 2 : 0;
  }
  return decoded;
}

}  // namespace tp
