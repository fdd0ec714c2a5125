// Cores that several ranks of a host may use.
#pragma once

#include <bitset>
#include <cstddef>
#include <span>
#include <vector>

namespace tp {

constexpr std::size_t kMaxProcessors = 8192;  // largest NR_CPUS of Linux
// Cores of a host. A core's number is the number of its first hardware thread.
using CoreSet = std::bitset<kMaxProcessors>;

// The ranks that may use some of the same cores as rank `own`, including it. `sets`: the cores that each rank
// of the host may use.
std::vector<std::size_t> ranks_that_share(std::span<const CoreSet> sets, std::size_t own);

// The cores that these ranks may use together.
CoreSet united(std::span<const CoreSet> sets, std::span<const std::size_t> ranks);

// Rank `own`'s share of its cores. A core that n ranks may use counts 1/n; the sum is rounded down.
std::size_t fair_share(std::span<const CoreSet> sets, std::size_t own);

}  // namespace tp
