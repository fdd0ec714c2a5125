// Measures which WireWay is fastest for each size of sum.
#pragma once

#include "parallel/exchange/exchange.h"
#include "parallel/exchange/wire_all_reduce.h"

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

namespace tp {

// The duration of a sum, and the time since the first trial began, both in seconds on the slowest host.
struct WireTiming {
  double seconds = 0.0;
  double elapsed = 0.0;
};

// Runs a sum of `bytes` bytes with `way`.
using WireTrial = std::function<WireTiming(WireWay way, std::size_t bytes)>;

// The fastest of these ways for each size. Sizes that take too long are not measured. Empty if there is no
// time even for the smallest size. All trials together take at most 0.15 s if the time of a trial grows no
// faster than its bytes. Only the first trial, which opens the connections, may take longer.
std::vector<WireChoice> quickest_ways(std::span<const WireWay> ways, const WireTrial& trial);

// Measures the fastest ways with this wire type, and sets the ways and the type in `wire`. Collective over
// the host roots, which `exchange` connects. Throws CommError.
void choose_wire_ways(WireAllReduce& wire, Exchange& exchange, WireType type);

}  // namespace tp
