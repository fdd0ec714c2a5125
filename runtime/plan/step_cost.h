// Predicts the bytes that a step reads on one rank, and the multiplications that it does.
#pragma once

#include "runtime/plan/rank_shape.h"

#include <cstddef>

namespace tp {

// The load of a step.
struct StepLoad {
  std::size_t tokens = 0;     // tokens of all sequences
  std::size_t sequences = 1;  // sequences with equally many tokens
  std::size_t context = 0;    // earlier tokens of each sequence
  std::size_t outputs = 0;    // rows of logits
};

struct StepCost {
  double weight_bytes = 0.0;     // weights read; only experts to which tokens are routed
  double cache_bytes = 0.0;      // cache read, and states of recurrent layers read and written
  double multiplications = 0.0;  // by weights, and in attention

  double bytes() const { return weight_bytes + cache_bytes; }
  StepCost& operator+=(const StepCost& more) {
    weight_bytes += more.weight_bytes;
    cache_bytes += more.cache_bytes;
    multiplications += more.multiplications;
    return *this;
  }
};

// Assumes that tokens are routed to all experts with equal probability.
StepCost step_cost(const RankShape& shape, const StepLoad& load);

}  // namespace tp
