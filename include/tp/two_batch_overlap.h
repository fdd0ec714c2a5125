// Overlap of communication and computation.
#pragma once

#include <cstdint>

namespace tp {

// Selects the steps to compute as two half-batches: while hosts exchange the sums of one half-batch, ranks
// compute the other half-batch.
enum class TwoBatchOverlap : std::uint8_t {
  automatic,  // large steps on several hosts, if transfers between hosts take over a third of the step
  on,         // every step that can be divided, even on a single host
  off,
};

}  // namespace tp
