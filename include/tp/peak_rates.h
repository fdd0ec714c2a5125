#pragma once

#include "tp/communicator.h"

#include <cstddef>

namespace tp {

// Peak rates of one rank with all its threads, or sums over several ranks, for comparison with measured
// speeds. A multiply-add counts as two operations.
struct PeakRates {
  double streaming_bytes_per_second = 0.0;  // reading from memory, with software prefetch
  double f32_per_second = 0.0;
  double bf16_per_second = 0.0;  // 0: the CPU has no bf16 instructions
  double int8_per_second = 0.0;
};

// Measures all ranks at the same time, with `threads` threads each (0: as many as the engine would use).
// Collective; returns the sum over ranks on rank 0. Takes one to two seconds and 512 MiB of temporary memory
// per rank, so call it before you create an engine. Resets the peak memory that RankReport contains. Throws
// AgreedError and CommError.
PeakRates measure_peak_rates(Communicator& comm, std::size_t threads);

}  // namespace tp
