// Attention whose cost grows linearly with the number of tokens: windows, blocks and random features.
#pragma once

#include "bench/attention_problem.h"

namespace tp::bench {

// Prints the time per token by length, next to exact attention. Verifies the results of some tokens first,
// and throws ConfigError if one is wrong.
void run_sparse(const Options& options);

}  // namespace tp::bench
