// Divides the model in proportion to the speed of hosts.
#pragma once

#include "parallel/exchange/placement.h"
#include "tp/communicator.h"

#include <cstddef>
#include <span>
#include <vector>

namespace tp {

// Hosts whose rates differ by less than this factor count as equal, because measurements vary as much.
inline constexpr double kEqualHosts = 1.1;

// The ranks' shares, [ranks]. `rates`: bytes per second that each rank can read. A rank's share is the mean
// rate of its host's ranks, which share memory. Empty if the fastest host is less than kEqualHosts times as
// fast as the slowest.
std::vector<double> split_of(std::span<const double> rates, const Placement& placement);

// Like split_of, with rates that all ranks measure at the same time, using `threads` threads each.
// Collective; equal on every rank. Empty on a single host. Throws AgreedError and CommError.
std::vector<double> measure_split(Communicator& comm, std::size_t threads);

}  // namespace tp
