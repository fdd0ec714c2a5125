// Measures this machine's peak rates, as a reference for kernels.
#pragma once

#include "tp/peak_rates.h"

namespace tp {

// Measures this rank's rates. Takes one to two seconds and 512 MiB. Ranks that share a host should measure at
// the same time, because they also compute at the same time.
PeakRates local_peak_rates();

// Measures only the memory bandwidth, in bytes per second. Takes 0.3 seconds.
double local_streaming_rate();

}  // namespace tp
