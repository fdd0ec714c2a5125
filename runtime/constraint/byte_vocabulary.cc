#include "runtime/constraint/byte_vocabulary.h"

#include <algorithm>

namespace tp::constraint {

ByteVocabulary::ByteVocabulary(const Tokenizer& tokenizer, std::size_t vocab_size,
                               std::span<const TokenId> ends)
    : tokenizer_(&tokenizer), bytes_(vocab_size) {
  const std::size_t known = std::min(vocab_size, tokenizer.vocab_size());
  for (std::size_t index = 0; index < known; ++index) {
    const auto id = static_cast<TokenId>(index);
    const bool is_control = tokenizer.is_special(id) || tokenizer.is_control(id);
    bytes_[index] = is_control ? control_text(id) : tokenizer.bytes_of(id);
    // Byte-level tokenizers also have tokens for bytes that no text contains.
    if (!is_control && bytes_[index].find(static_cast<char>(kControlByte)) != std::string::npos)
      bytes_[index].clear();
  }
  for (const TokenId end : ends) {
    if (end >= 0 && static_cast<std::size_t>(end) < vocab_size) bytes_[static_cast<std::size_t>(end)].clear();
  }
  trie_ = TokenTrie(bytes_);
}

std::vector<ByteVocabulary::Part> ByteVocabulary::parts_of(std::string_view text) const {
  std::vector<Part> parts;
  for (const TokenId id : tokenizer_->encode(text, AddSpecial::no)) {
    if (!tokenizer_->is_special(id) && !tokenizer_->is_control(id)) continue;
    const std::string_view token = tokenizer_->id_to_token(id);
    const std::size_t place = text.find(token);
    if (place == text.npos) continue;
    if (place > 0) parts.push_back({.text = std::string(text.substr(0, place))});
    if (!bytes(id).empty()) parts.push_back({.text = std::string(token), .control = id});
    text.remove_prefix(place + token.size());
  }
  if (!text.empty()) parts.push_back({.text = std::string(text)});
  return parts;
}

// Tries the text after different prefixes, until a token begins where the text begins.
std::vector<TokenId> ByteVocabulary::encode_after_text(std::string_view text) const {
  for (const std::string_view before : {"", "\n", "a", "."}) {
    const std::vector<TokenId> ids =
        tokenizer_->encode(std::string(before) + std::string(text), AddSpecial::no);
    std::string_view rest = text;
    auto begin = ids.end();
    while (begin != ids.begin() && !rest.empty() && !bytes(*(begin - 1)).empty() &&
           rest.ends_with(bytes(*(begin - 1)))) {
      --begin;
      rest.remove_suffix(bytes(*begin).size());
    }
    if (rest.empty()) return {begin, ids.end()};
  }
  return {};
}

}  // namespace tp::constraint
