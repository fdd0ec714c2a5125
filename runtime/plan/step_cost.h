// What a step reads and multiplies on one rank.
#pragma once

#include "runtime/plan/rank_shape.h"

#include <cstddef>

namespace tp {

// What a step computes.
struct StepLoad {
  std::size_t tokens = 0;     // of all sequences
  std::size_t sequences = 1;  // with equally many of them
  std::size_t context = 0;    // tokens of each sequence before these
  std::size_t outputs = 0;    // rows of logits
};

struct StepCost {
  double weight_bytes = 0.0;     // read: of experts those that tokens are routed to
  double cache_bytes = 0.0;      // read, and states of recurrent layers written
  double multiplications = 0.0;  // by weights, and of attention

  double bytes() const { return weight_bytes + cache_bytes; }
  StepCost& operator+=(const StepCost& more) {
    weight_bytes += more.weight_bytes;
    cache_bytes += more.cache_bytes;
    multiplications += more.multiplications;
    return *this;
  }
};

// If tokens are as likely routed to one expert as to another.
StepCost step_cost(const RankShape& shape, const StepLoad& load);

}  // namespace tp
