// What this machine can do at best, to measure kernels against.
#pragma once

#include <cstddef>

namespace tp {

// Rates of one rank with all of its threads. Operations are multiplications and additions.
struct Ceilings {
  double streaming_bytes_per_second = 0.0;  // reading memory with software prefetch
  double f32_per_second = 0.0;
  double bf16_per_second = 0.0;  // 0 without such an instruction
  double int8_per_second = 0.0;
};

// Takes about a second. Ranks that share a host should measure at the same time, as they compute.
Ceilings measure_ceilings();

}  // namespace tp
