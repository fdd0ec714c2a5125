#pragma once

namespace tp {

// What a machine can do at best, to measure against: rates of a rank with all of its threads, or of several
// ranks together. Operations are multiplications and additions.
struct Ceilings {
  double streaming_bytes_per_second = 0.0;  // reading memory with software prefetch
  double f32_per_second = 0.0;
  double bf16_per_second = 0.0;  // 0 without such an instruction
  double int8_per_second = 0.0;
};

}  // namespace tp
