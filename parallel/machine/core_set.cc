#include "parallel/machine/core_set.h"

#include <algorithm>
#include <cmath>

namespace tp {

std::vector<std::size_t> ranks_that_share(std::span<const CoreSet> sets, std::size_t own) {
  std::vector<std::size_t> ranks;
  for (std::size_t rank = 0; rank < sets.size(); ++rank) {
    if (rank == own || (sets[rank] & sets[own]).any()) ranks.push_back(rank);
  }
  return ranks;
}

CoreSet united(std::span<const CoreSet> sets, std::span<const std::size_t> ranks) {
  CoreSet all;
  for (const std::size_t rank : ranks) all |= sets[rank];
  return all;
}

std::size_t fair_share(std::span<const CoreSet> sets, std::size_t own) {
  constexpr double kRounding = 1e-6;  // a third of three cores is a whole core
  double share = 0.0;
  for (std::size_t core = 0; core < kMaxProcessors; ++core) {
    if (!sets[own].test(core)) continue;
    const auto users = std::ranges::count_if(sets, [&](const CoreSet& set) { return set.test(core); });
    share += 1.0 / static_cast<double>(users);
  }
  return static_cast<std::size_t>(std::floor(share + kRounding));
}

}  // namespace tp
