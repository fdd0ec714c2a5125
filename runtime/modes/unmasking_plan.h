// How many passes a diffusion language model has for each block of a text, and how many positions they
// settle.
#pragma once

#include "model/config/diffusion_spec.h"
#include "tp/unmasking.h"

#include <cstddef>
#include <span>
#include <vector>

namespace tp {

// A request's settings, with those of the model where it has none.
struct UnmaskingPlan {
  DiffusionSpec spec;
  std::size_t block_length = 0;
  std::size_t passes = 0;  // of a block, unless a threshold says else
  UnmaskRule rule = UnmaskRule::low_confidence;
  double threshold = 0.0;
  UnmaskCache cache = UnmaskCache::exact;

  // Of a request for so many tokens. Throws RequestError if they cannot be divided evenly.
  UnmaskingPlan(const DiffusionSpec& model, const Unmasking& asked, std::size_t max_tokens);

  // What a guess is judged by.
  GuessSettings guess() const;
};

// How far a block has come.
struct BlockProgress {
  std::size_t length = 0;
  std::size_t masks_at_start = 0;
  std::size_t masks = 0;
  std::size_t pass = 0;  // of plan.passes
};

// How many positions the schedule settles in this pass; of_block may say more than there are masks.
std::size_t scheduled(const UnmaskingPlan& plan, const BlockProgress& block);

// The positions of a block to settle, ascending, of which at least one is masked. `confidences`: of every
// position, minus infinity where it is not masked.
std::vector<std::size_t> positions_to_settle(const UnmaskingPlan& plan, const BlockProgress& block,
                                             std::span<const double> confidences);

}  // namespace tp
