#include "model/tokenizer/models/byte_fallback.h"

#include <algorithm>

#include <fmt/format.h>

namespace tp {

ByteFallback::ByteFallback(const Vocabulary& vocabulary) {
  for (unsigned byte = 0; byte < tokens_.size(); ++byte)
    tokens_[byte] = vocabulary.find(fmt::format("<0x{:02X}>", byte));
}

bool ByteFallback::append(std::string_view text, std::vector<TokenId>& out) const {
  const auto token_of = [&](char byte) { return tokens_[static_cast<unsigned char>(byte)]; };
  if (!std::all_of(text.begin(), text.end(), [&](char byte) { return token_of(byte).has_value(); }))
    return false;
  for (const char byte : text) out.push_back(*token_of(byte));
  return true;
}

}  // namespace tp
