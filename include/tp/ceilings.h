#pragma once

#include "tp/communicator.h"

#include <cstddef>

namespace tp {

// What a machine can do at best, to measure against: rates of a rank with all of its threads, or of several
// ranks together. Operations are multiplications and additions.
struct Ceilings {
  double streaming_bytes_per_second = 0.0;  // reading memory with software prefetch
  double f32_per_second = 0.0;
  double bf16_per_second = 0.0;  // 0 without such an instruction
  double int8_per_second = 0.0;
};

// Measures all ranks at once, as they compute together, with `threads` each (0: as the engine does); every
// rank calls it. Returns their sum on rank 0. Takes one to two seconds and, for that long, 512 MiB a rank:
// before an engine is there, so that the two need not fit together. RankReport's peak memory starts afresh.
// Throws what fail_together does.
Ceilings measure_ceilings(Communicator& comm, std::size_t threads);

}  // namespace tp
