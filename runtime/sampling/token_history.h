#pragma once

#include "tp/token_id.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace tp {

// The tokens of a sequence and the number of occurrences of each, for the penalties of SamplingParams.
class TokenHistory {
 public:
  // The occurrences of a token.
  struct Counts {
    std::uint32_t prompt = 0;
    std::uint32_t generated = 0;
  };

  // The first `prompt_tokens` appended tokens are the prompt; later tokens are generated.
  explicit TokenHistory(std::size_t prompt_tokens = 0) : prompt_tokens_(prompt_tokens) {}

  void append(std::span<const TokenId> tokens);
  // Keeps only the first `size` tokens.
  void truncate(std::size_t size);
  std::size_t size() const { return tokens_.size(); }
  // The last `count` tokens. Valid until the history changes.
  std::span<const TokenId> last(std::size_t count) const { return std::span(tokens_).last(count); }

  // The distinct tokens of the sequence, in no particular order.
  const std::unordered_map<TokenId, Counts>& all() const { return counts_; }

 private:
  std::vector<TokenId> tokens_;
  std::size_t prompt_tokens_;
  std::unordered_map<TokenId, Counts> counts_;
};

}  // namespace tp
