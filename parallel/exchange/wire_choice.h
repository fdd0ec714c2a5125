// Measures how sums should cross the wire.
#pragma once

#include "parallel/exchange/exchange.h"
#include "parallel/exchange/wire_all_reduce.h"

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

namespace tp {

// Seconds of one sum, and seconds since the first trial began, on the slowest host.
struct WireTiming {
  double seconds = 0.0;
  double elapsed = 0.0;
};

// Sums so many bytes in this way.
using WireTrial = std::function<WireTiming(WireWay way, std::size_t bytes)>;

// The quickest of these ways for each size, as far as there is time to try it: nothing if not even the
// smallest can be tried. Where a trial takes at most in proportion to its bytes as long as a smaller one, all
// of them take no more than 0.15 s and the first, which opens the connections.
std::vector<WireChoice> quickest_ways(std::span<const WireWay> ways, const WireTrial& trial);

// Lets `wire` use them, with this type. Collective over the host roots, which `exchange` connects; throws
// CommError.
void choose_wire_ways(WireAllReduce& wire, Exchange& exchange, WireType type);

}  // namespace tp
