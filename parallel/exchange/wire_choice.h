// Measures the fastest way across the wire for each size of sum.
#pragma once

#include "parallel/exchange/exchange.h"
#include "parallel/exchange/wire_all_reduce.h"

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

namespace tp {

// Seconds of one sum, and seconds since the first trial began, both on the slowest host.
struct WireTiming {
  double seconds = 0.0;
  double elapsed = 0.0;
};

// Runs a sum of `bytes` bytes with `way`.
using WireTrial = std::function<WireTiming(WireWay way, std::size_t bytes)>;

// The fastest of these ways for each size that there is time to try; empty if there is no time for the
// smallest. If the time of a trial grows no faster than its bytes, all trials together take at most 0.15 s,
// or as long as the first one, which opens the connections.
std::vector<WireChoice> quickest_ways(std::span<const WireWay> ways, const WireTrial& trial);

// Measures the fastest ways and sets them in `wire`, with this type. Collective over the host roots, which
// `exchange` connects. Throws CommError.
void choose_wire_ways(WireAllReduce& wire, Exchange& exchange, WireType type);

}  // namespace tp
