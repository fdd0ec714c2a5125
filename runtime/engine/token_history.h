#pragma once

#include "tp/token_id.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace tp {

// Which tokens a sequence holds, and how often: what the penalties of SamplingParams depend on.
class TokenHistory {
 public:
  struct Counts {
    std::uint32_t prompt = 0;
    std::uint32_t generated = 0;
  };

  // The first `prompt_tokens` of the tokens to come are the prompt's, the others are generated.
  explicit TokenHistory(std::size_t prompt_tokens = 0) : prompt_tokens_(prompt_tokens) {}

  void append(std::span<const TokenId> tokens);
  // Drops what is behind the first `size` tokens.
  void truncate(std::size_t size);
  std::size_t size() const { return tokens_.size(); }

  // How often the sequence holds a token; zeros if it does not.
  Counts counts(TokenId token) const;
  // All tokens of the sequence, each once, in no particular order.
  const std::unordered_map<TokenId, Counts>& all() const { return counts_; }

 private:
  std::vector<TokenId> tokens_;
  std::size_t prompt_tokens_;
  std::unordered_map<TokenId, Counts> counts_;
};

}  // namespace tp
