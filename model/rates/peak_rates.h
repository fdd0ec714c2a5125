// What this machine can do at best, to measure kernels against.
#pragma once

#include "tp/peak_rates.h"

namespace tp {

// Measures this rank's rates. Takes one to two seconds and 512 MiB. Ranks that share a host should measure at
// the same time, as they compute.
PeakRates local_peak_rates();

// Only the first of them, in bytes per second. Takes 0.3 seconds.
double local_streaming_rate();

}  // namespace tp
