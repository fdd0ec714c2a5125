#pragma once

#include "bench/attention_problem.h"

namespace tp::bench {

// Measures decoding one token of each of several sequences after long contexts. Prints the rate at which the
// caches are read, relative to the memory's peak bandwidth, for every type of cache.
void run_decode(const Options& options);

}  // namespace tp::bench
