#pragma once

#include "tp/token_id.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tp {

// A set of tokens, as a bit set over the vocabulary.
class TokenMask {
 public:
  TokenMask() = default;
  // Contains all tokens if `all` is set, else none.
  explicit TokenMask(std::size_t vocab_size, bool all = false)
      : words_((vocab_size + 63) / 64, all ? ~std::uint64_t{0} : 0) {}

  void add(TokenId id) { word_of(id) |= bit_of(id); }
  void remove(TokenId id) { word_of(id) &= ~bit_of(id); }
  bool contains(TokenId id) const {
    const auto word = static_cast<std::size_t>(id) / 64;
    return word < words_.size() && (words_[word] & bit_of(id)) != 0;
  }

  // Token i is bit i % 64 of word i / 64.
  std::span<std::uint64_t> words() { return words_; }
  std::span<const std::uint64_t> words() const { return words_; }

 private:
  static std::uint64_t bit_of(TokenId id) {
    return std::uint64_t{1} << (static_cast<std::uint32_t>(id) % 64);
  }
  std::uint64_t& word_of(TokenId id) { return words_.at(static_cast<std::size_t>(id) / 64); }

  std::vector<std::uint64_t> words_;
};

}  // namespace tp
