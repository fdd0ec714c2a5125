// Plans how many passes a diffusion language model has for each block of a text, and which positions they
// unmask.
#pragma once

#include "model/config/diffusion_spec.h"
#include "tp/unmasking.h"

#include <cstddef>
#include <span>
#include <vector>

namespace tp {

// A request's settings, completed by the model's settings.
struct UnmaskingPlan {
  DiffusionSpec spec;
  std::size_t block_length = 0;
  std::size_t passes = 0;  // passes of a block, if no threshold ends it earlier
  UnmaskRule rule = UnmaskRule::low_confidence;
  double threshold = 0.0;
  UnmaskCache cache = UnmaskCache::exact;
  CanvasDefaults canvas{};  // used if blocks are canvases

  // Plans a request for `max_tokens` tokens. `defaults`: the model's settings of canvases. Throws
  // RequestError if blocks and passes cannot divide the tokens evenly, or if canvases cannot do what the
  // request asks.
  UnmaskingPlan(const DiffusionSpec& model, const Unmasking& asked, std::size_t max_tokens,
                const CanvasDefaults& defaults = {});

  // Settings of the proposals.
  ProposalSettings proposal() const;
};

// The progress of a block.
struct BlockProgress {
  std::size_t length = 0;
  std::size_t masks_at_start = 0;
  std::size_t masks = 0;
  std::size_t pass = 0;  // index of the current pass
};

// Number of positions that the schedule unmasks in this pass. May exceed the number of masks with of_block.
std::size_t scheduled(const UnmaskingPlan& plan, const BlockProgress& block);

// Returns the positions of a block to unmask, ascending. At least one of them is masked. `confidences`:
// [positions], minus infinity for unmasked positions.
std::vector<std::size_t> positions_to_unmask(const UnmaskingPlan& plan, const BlockProgress& block,
                                             std::span<const double> confidences);

}  // namespace tp
