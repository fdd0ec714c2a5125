#pragma once

#include "tp/communicator.h"

#include <cstddef>

namespace tp {

// The highest rates that a machine reaches, as a limit for measurements: of one rank with all its threads, or
// of several ranks together. A multiplication and an addition count as two operations.
struct PeakRates {
  double streaming_bytes_per_second = 0.0;  // reading from memory, with software prefetch
  double f32_per_second = 0.0;
  double bf16_per_second = 0.0;  // 0 if the CPU has no such instruction
  double int8_per_second = 0.0;
};

// Measures all ranks at the same time, with `threads` threads each (0: as many as the engine would use).
// Collective; returns the sum over ranks on rank 0. Takes one to two seconds and 512 MiB per rank while it
// runs, so call it before the engine is created. Resets the peak memory that RankReport shows. Throws
// AgreedError and CommError.
PeakRates measure_peak_rates(Communicator& comm, std::size_t threads);

}  // namespace tp
