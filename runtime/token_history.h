#pragma once

#include "tp/token_id.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>

namespace tp {

// Which tokens a sequence holds, and how often: what the penalties of SamplingParams depend on.
class TokenHistory {
 public:
  struct Counts {
    std::uint32_t prompt = 0;
    std::uint32_t generated = 0;
  };

  void add_prompt(std::span<const TokenId> tokens);
  void add_generated(TokenId token);

  // How often the sequence holds a token; zeros if it does not.
  Counts counts(TokenId token) const;
  // All tokens of the sequence, each once, in no particular order.
  const std::unordered_map<TokenId, Counts>& all() const { return counts_; }

  // Different tokens in prompt and generated text together.
  std::size_t distinct_seen() const { return counts_.size(); }
  // Different tokens in the generated text.
  std::size_t distinct_generated() const { return distinct_generated_; }

 private:
  std::unordered_map<TokenId, Counts> counts_;
  std::size_t distinct_generated_ = 0;
};

}  // namespace tp
