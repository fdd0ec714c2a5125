// A text of a diffusion language model while its positions get their tokens: what the next pass computes, and
// what its guesses settle. It uses neither a model nor ranks.
#pragma once

#include "runtime/modes/unmasking_plan.h"
#include "tp/token_id.h"

#include <cstddef>
#include <span>
#include <vector>

namespace tp {

class UnmaskedText {
 public:
  // At least `generated` (>= 1) tokens follow the prompt; where blocks are a part of the model, the last one
  // is completed up to max_length tokens in all.
  UnmaskedText(const UnmaskingPlan& plan, std::vector<TokenId> prompt, std::size_t generated,
               std::size_t max_length);

  bool done() const { return block_.begin == tokens_.size(); }
  // The tokens up to the last one that the next pass computes, masks included: all, or those up to the end of
  // the block at hand.
  std::span<const TokenId> pass_tokens() const;
  // The first one that it computes: 0 unless it uses keys and values of the block's passes before it.
  std::size_t pass_begin() const;
  bool uses_cache() const { return plan_.cache != UnmaskCache::exact && in_block_; }
  // The positions whose logits are guesses at the positions to be settled, ascending.
  std::vector<std::size_t> pass_rows() const;
  // Settles positions by what was guessed at these rows; returns them, ascending.
  std::vector<SettledToken> settle(std::span<const Guess> guesses);

  // Passes that have been settled.
  std::size_t passes() const { return passes_; }
  // Tokens before this position do not change any more.
  std::size_t settled_end() const;
  std::size_t size() const { return tokens_.size(); }
  TokenId token(std::size_t position) const { return tokens_[position]; }

 private:
  struct Block {
    std::size_t begin = 0;
    std::size_t end = 0;
  };

  void begin_block(std::size_t begin);
  void skip_idle_passes();
  std::vector<std::size_t> guessed_positions() const;

  UnmaskingPlan plan_;
  std::size_t prompt_;
  std::vector<TokenId> tokens_;
  std::vector<bool> masked_;  // [tokens]
  Block block_;
  BlockProgress progress_;
  bool in_block_ = false;  // a pass of this block has been settled
  std::size_t passes_ = 0;
};

}  // namespace tp
