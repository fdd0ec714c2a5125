// Attention whose cost grows in proportion to the tokens: windows, blocks and random features.
#pragma once

#include "bench/attention_problem.h"

namespace tp::bench {

// Time per token by length, beside exact attention. Results of some tokens are verified first. Throws
// ConfigError where one is wrong.
void run_sparse(const Options& options);

}  // namespace tp::bench
