// A diffusion language model's text while its positions are unmasked, or while its canvases turn into text.
// Determines the tokens that the next pass computes, and the positions that its proposals unmask. Uses
// neither a model nor ranks.
#pragma once

#include "runtime/modes/canvas_progress.h"
#include "runtime/modes/unmasking_plan.h"
#include "tp/token_id.h"

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

namespace tp {

class UnmaskedText {
 public:
  // A random token for a position of a canvas. `draw` counts a text's draws of a whole canvas: one for each
  // new canvas, and one after each pass but the canvas's last possible one.
  using RandomTokens = std::function<TokenId(std::size_t draw, std::size_t position)>;

  // At least `generated` (>= 1) tokens follow the prompt. If blocks are a part of the model, the last block
  // is completed, up to `max_length` tokens in total. `random`: needed if blocks are canvases.
  UnmaskedText(const UnmaskingPlan& plan, std::vector<TokenId> prompt, std::size_t generated,
               std::size_t max_length, RandomTokens random = {});

  bool done() const { return block_.begin == tokens_.size(); }
  // The tokens up to the last token that the next pass computes, including masks: all tokens, or the tokens
  // up to the end of the current block.
  std::span<const TokenId> pass_tokens() const;
  // Index of the first token that the next pass computes: 0 unless it uses keys and values of the block's
  // earlier passes.
  std::size_t pass_begin() const;
  bool uses_cache() const { return plan_.cache != UnmaskCache::exact && in_block_; }
  // Whether earlier passes over the block have left something for the next pass.
  bool continues_block() const { return uses_cache() || (plan_.spec.canvas && in_block_); }
  // Position of the canvas's first token, if blocks are canvases.
  std::size_t canvas_begin() const { return block_.begin; }
  const CanvasProgress& canvas() const { return canvas_; }
  // The rows with proposals for the positions to unmask, ascending.
  std::vector<std::size_t> pass_rows() const;
  // Unmasks positions by the proposals in pass_rows(). Returns the unmasked positions, ascending.
  std::vector<UnmaskedToken> unmask(std::span<const Proposal> proposals);

  // Number of finished passes.
  std::size_t passes() const { return passes_; }
  // Tokens before this position no longer change.
  std::size_t unmasked_end() const;
  std::size_t size() const { return tokens_.size(); }
  TokenId token(std::size_t position) const { return tokens_[position]; }

 private:
  struct Block {
    std::size_t begin = 0;
    std::size_t end = 0;
  };

  void begin_block(std::size_t begin);
  void skip_idle_passes();
  std::vector<std::size_t> proposed_positions() const;
  std::vector<UnmaskedToken> unmask_canvas(std::span<const Proposal> proposals);
  // Replaces the canvas's tokens by random ones, except at the positions `kept`, which are ascending.
  void draw_canvas(std::span<const std::size_t> kept);

  UnmaskingPlan plan_;
  std::size_t prompt_;
  std::vector<TokenId> tokens_;
  std::vector<bool> masked_;  // [tokens]
  Block block_;
  BlockProgress progress_;
  bool in_block_ = false;  // a pass of this block has finished
  std::size_t passes_ = 0;
  CanvasProgress canvas_;
  RandomTokens random_;
  std::size_t draws_ = 0;  // finished draws
};

}  // namespace tp
