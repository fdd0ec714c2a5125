// The part of bench_attention about latents, of which all heads read the same.
#pragma once

#include "bench/attention_problem.h"

namespace tp::bench {

// Prints decoding beside two bounds of it: reading the latents, and multiplying them. Throws ConfigError if a
// result is wrong.
void run_latent(const Options& options);

}  // namespace tp::bench
