#pragma once

#include "bench/attention_problem.h"

namespace tp::bench {

// Decoding one token of each of several sequences after long contexts: the rate at which the caches are read,
// relative to the peak bandwidth of the memory, with every type of cache.
void run_decode(const Options& options);

}  // namespace tp::bench
