// The part of bench_attention for latents, which all heads share.
#pragma once

#include "bench/attention_problem.h"

namespace tp::bench {

// Prints decoding times next to two bounds: reading the latents, and multiplying them. Throws ConfigError if
// a result is wrong.
void run_latent(const Options& options);

}  // namespace tp::bench
