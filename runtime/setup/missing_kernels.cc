#include "runtime/setup/missing_kernels.h"

#include "parallel/exchange/collectives.h"

#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>

namespace tp {

namespace {

// For processors that have only the portable kernels in any build.
std::string no_vectors(std::span<const RankKernels> ranks) {
  const auto first = std::ranges::find(ranks, kernels::Isa::portable, &RankKernels::machine);
  if (first == ranks.end()) return "";
  return fmt::format(
      "{} of {} rank{} compute slowly, with portable loops: rank {}'s processor has no AVX2; use processors "
      "with AVX2 or AVX-512",
      std::ranges::count(ranks, kernels::Isa::portable, &RankKernels::machine), ranks.size(),
      ranks.size() == 1 ? "" : "s", first - ranks.begin());
}

}  // namespace

std::string missing_kernels(std::span<const RankKernels> ranks) {
  const auto lacks = [](const RankKernels& rank) { return rank.built < rank.machine; };
  const auto first = std::ranges::find_if(ranks, lacks);
  if (first == ranks.end()) return no_vectors(ranks);
  return fmt::format(
      "{} of {} rank{} could compute faster: rank {}'s processor has {}, but this build has kernels up to {} "
      "for it; compile all kernels with launch/quickstart --all-cpus, or cmake -DTP_CPUS=all",
      std::ranges::count_if(ranks, lacks), ranks.size(), ranks.size() == 1 ? "" : "s", first - ranks.begin(),
      kernels::name_of(first->machine), kernels::name_of(first->built));
}

std::string missing_kernels(Communicator& comm) {
  const char* const forced = std::getenv("TP_ISA");
  const bool chooses = forced == nullptr || *forced == '\0';
  const kernels::Isa built = kernels::best_isa();
  const RankKernels own = {chooses ? kernels::machine_isa() : built, built};
  return missing_kernels(exchange_values(comm, std::span<const RankKernels>(&own, 1)));
}

}  // namespace tp
