// Communication during computation.
#pragma once

#include <cstdint>

namespace tp {

// Steps that are computed as two half-batches: while hosts exchange the sums of one half, ranks compute the
// other.
enum class TwoBatchOverlap : std::uint8_t {
  automatic,  // large steps on several hosts, if the wire takes more than a third of their time
  on,         // every step that can be divided, even on one host
  off,
};

}  // namespace tp
