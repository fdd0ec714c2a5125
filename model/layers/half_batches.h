// A batch as two, which are computed in turns.
#pragma once

#include "model/layers/linear/batch.h"

#include <cstddef>
#include <optional>

namespace tp {

struct HalfBatches {
  Batch first;
  Batch second;
};

// Tokens of the larger half, which is the first one, of so many. Grows with them.
std::size_t larger_half(std::size_t tokens);

// The first and the last tokens of a batch; a sequence may have some in each. What `second` computes may
// depend on what `first` leaves in the same layer's cache and states, not the other way round. Nothing if the
// batch cannot be divided: it has one token, inputs to encode, tokens that see later ones or keys that the
// step does not compute, or outputs that are not in the order of their tokens.
std::optional<HalfBatches> halves_of(const Batch& batch);

}  // namespace tp
