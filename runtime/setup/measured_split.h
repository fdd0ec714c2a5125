// Shares of the model by how fast hosts are.
#pragma once

#include "parallel/exchange/placement.h"
#include "tp/communicator.h"

#include <cstddef>
#include <span>
#include <vector>

namespace tp {

// Hosts whose rates differ by less count as equal: measurements do, too.
inline constexpr double kEqualHosts = 1.1;

// The ranks' shares where each can read this many bytes per second, [ranks]: the mean over its host's ranks,
// which share its memory. Empty if the fastest host is less than kEqualHosts times as fast as the slowest.
std::vector<double> split_of(std::span<const double> rates, const Placement& placement);

// The same with rates that all ranks measure at the same time, with `threads` threads each. Collective; equal
// on every rank. Empty on a single host. Throws AgreedError and CommError.
std::vector<double> measure_split(Communicator& comm, std::size_t threads);

}  // namespace tp
