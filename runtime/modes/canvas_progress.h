// A canvas between its passes: which proposals a pass accepts, and when the canvas ends.
#pragma once

#include "tp/token_id.h"
#include "tp/unmasking.h"

#include <cstddef>
#include <span>
#include <vector>

namespace tp {

class CanvasProgress {
 public:
  CanvasProgress() = default;
  // `passes` (>= 1): the most passes over the canvas.
  CanvasProgress(const CanvasDefaults& settings, std::size_t passes) : settings_(settings), passes_(passes) {}

  // The temperature of the next pass.
  float temperature() const;
  bool is_last_pass() const { return pass_ + 1 >= passes_; }

  // Takes the proposals of a pass for all positions, with negated entropies as confidences. Returns the
  // accepted positions, ascending.
  std::vector<std::size_t> take(std::span<const Proposal> proposals);

  bool ended() const { return ended_; }
  // The most probable token of each position in the last pass: the text, once the canvas has ended.
  const std::vector<TokenId>& best() const { return best_; }

 private:
  CanvasDefaults settings_;
  std::size_t passes_ = 1;
  std::size_t pass_ = 0;       // index of the next pass
  std::size_t unchanged_ = 0;  // earlier passes in a row with the same `best_`
  bool ended_ = false;
  std::vector<TokenId> best_;
};

}  // namespace tp
