// Communication that goes on while a rank computes.
#pragma once

#include <cstdint>

namespace tp {

// Whether a step is computed as two half-batches in turns: while the sums of one are on the wire, the other
// computes.
enum class TwoBatchOverlap : std::uint8_t {
  automatic,  // large steps on several hosts, where the wire took more than a third of such steps
  on,         // every step that can be divided, also on one host
  off,
};

}  // namespace tp
