// Masks of allowed tokens for a step's outputs.
#pragma once

#include "runtime/scheduling/scheduler.h"
#include "tp/token_mask.h"

#include <cstddef>
#include <future>
#include <map>

namespace tp {

// The masks of a step's outputs, computed in the background, so that the forward pass can run at the same
// time. All constraints share one thread, because most masks take less time to compute than a thread takes to
// start.
class StepMasks {
 public:
  // Starts computing the masks.
  StepMasks(const PlannedStep& planned, std::size_t vocab_size);

  bool empty() const { return masks_.empty(); }
  // Waits for an output's mask. Returns an empty mask, which allows no token, if computing the mask failed.
  TokenMask await(std::size_t output) const noexcept;
  // Waits for an output's mask, if it has one. Throws the exception that the computation of the mask threw.
  void check(std::size_t output) const;

 private:
  std::map<std::size_t, std::shared_future<TokenMask>> masks_;  // by output index
  std::shared_future<void> work_;                               // thread that computes the constraints' masks
};

// Starts computing the masks of a step's outputs, if it has any, and gives them to its forward pass.
void start_masks(PlannedStep& planned, std::size_t vocab_size);

}  // namespace tp
