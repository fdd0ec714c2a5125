// The token shift of RWKV, which mixes a token's input with that of the token before.
#pragma once

#include "model/layers/linear/step_context.h"
#include "model/memory/state_cache.h"
#include "tp/tensor.h"

#include <cstddef>
#include <vector>

namespace tp {

// The layer's state begins with the last token's input, [size], which is the same on every rank. Before the
// first token, the input is 0.
class TokenShift {
 public:
  // `size`: elements of an input
  explicit TokenShift(std::size_t size);

  // The input of the token before minus the token's own. x: [tokens, size] -> [tokens, size]. Advances the
  // states of the batch's sequences.
  TensorView<float> operator()(TensorView<const float> x, const StepContext& step) const;

  // Size of one sequence's state, in floats, rounded up to whole cache lines.
  std::size_t state_floats() const;
  StatePart::Rows state_rows() const { return {.count = 1, .floats = size_}; }

 private:
  std::size_t size_;
  // As a convolution over the token before and the token: [2, size], 1 and -1.
  std::vector<float> weight_;
};

}  // namespace tp
