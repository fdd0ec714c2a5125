// Splits a batch into two half-batches, so that ranks can compute one while hosts exchange the other's sums.
#pragma once

#include "model/layers/linear/batch.h"

#include <cstddef>
#include <optional>

namespace tp {

struct HalfBatches {
  Batch first;
  Batch second;
};

// Number of tokens in the first half, which is never the smaller one. Never decreases as `tokens` grows.
std::size_t larger_half(std::size_t tokens);

// Cuts a batch in two, possibly within a sequence. In each layer, `second` may read keys, values and states
// that `first` writes, but not vice versa. Returns nullopt if the batch cannot be split: if it has fewer than
// two tokens, belongs to an encoder-decoder, has global tokens, key biases or tokens that see later
// positions, or has outputs that are not in token order.
std::optional<HalfBatches> halves_of(const Batch& batch);

}  // namespace tp
