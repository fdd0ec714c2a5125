// Log-probabilities of the tokens in cached blocks. Prompts with a common prefix, such as the few-shot
// examples of an evaluation, are scored once: without the scores, a prompt with scores must be computed from
// its beginning, because logits are not in the cache. On rank 0.
#pragma once

#include "runtime/cache/content_tree.h"
#include "tp/request.h"

#include <cstddef>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tp {

// The scores of consecutive tokens, each given all tokens before it.
struct TokenScores {
  std::vector<double> logprobs;                // [tokens]: natural logarithms
  std::vector<std::vector<TokenLogprob>> top;  // [tokens], most likely first, or empty

  void append(std::span<const double> more, std::span<const std::vector<TokenLogprob>> more_top);
  // Removes the scores of the first tokens.
  void drop(std::size_t tokens);
};

class BlockScores {
 public:
  // The scores of the tokens in a block with these contents, with at least `min_top` likeliest tokens each,
  // or null. Valid until the next call of keep() or remove_unknown(). The first block of a text has no score
  // of the first token.
  const TokenScores* find(ContentId contents, std::size_t min_top) const;
  // Replaces scores with fewer likeliest tokens.
  void keep(ContentId contents, TokenScores scores, std::size_t top);
  std::size_t size() const { return blocks_.size(); }
  // Removes the scores of contents for which `is_known(contents)` is false.
  template <class Known>
  void remove_unknown(const Known& is_known) {
    std::erase_if(blocks_, [&](const auto& block) { return !is_known(block.first); });
  }

 private:
  struct Block {
    TokenScores scores;
    std::size_t top = 0;  // number of likeliest tokens
  };

  std::unordered_map<ContentId, Block> blocks_;
};

}  // namespace tp
