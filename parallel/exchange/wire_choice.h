#pragma once

#include "parallel/exchange/exchange.h"
#include "parallel/exchange/wire_all_reduce.h"

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

namespace tp {

// The duration of a sum, and the time since measuring began, both in seconds on the slowest host.
struct WireTiming {
  double seconds = 0.0;
  double elapsed = 0.0;
};

// Computes a sum of `bytes` bytes with the algorithm `way`, and times it.
using WireTrial = std::function<WireTiming(WireWay way, std::size_t bytes)>;

// The fastest of these algorithms for each size. Sizes that would take too long are not measured. Empty if
// there is no time even for the smallest size. If a trial's time grows no faster than its size, all trials
// together take at most 0.15 s, unless the first trial alone takes longer because it opens the connections.
std::vector<WireChoice> quickest_ways(std::span<const WireWay> ways, const WireTrial& trial);

// Measures which algorithms are fastest for this wire type, and makes `wire` use them and the type.
// Collective over the host roots, which `exchange` connects. Throws CommError.
void choose_wire_ways(WireAllReduce& wire, Exchange& exchange, WireType type);

}  // namespace tp
