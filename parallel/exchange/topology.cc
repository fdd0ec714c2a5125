#include "parallel/exchange/topology.h"

#include "parallel/exchange/placement.h"
#include "tp/internal/require.h"

#include <algorithm>

namespace tp {

std::vector<std::vector<std::size_t>> divide_into_stages(const Placement& world, std::size_t stages) {
  require<ConfigError>(stages > 0 && world.size() % stages == 0,
                       "cannot divide {} ranks into {} pipeline stages: expected a number of stages that "
                       "divides the ranks evenly; choose another, or start other ranks",
                       world.size(), stages);
  std::vector<std::size_t> by_host;
  for (const std::vector<std::size_t>& host : world.hosts)
    by_host.insert(by_host.end(), host.begin(), host.end());
  const std::size_t size = world.size() / stages;
  std::vector<std::vector<std::size_t>> divided;
  for (std::size_t stage = 0; stage < stages; ++stage) {
    const auto begin = by_host.begin() + static_cast<std::ptrdiff_t>(stage * size);
    divided.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(size));
  }
  return divided;
}

Topology::Topology(Communicator& world, std::size_t stages)
    : world_(world), stages_(divide_into_stages(world.placement(), stages)) {
  std::vector<std::size_t> tensor;
  for (std::size_t stage = 0; stage < stages; ++stage) {
    const auto found = std::ranges::find(stages_[stage], world.rank());
    if (found == stages_[stage].end()) continue;
    tensor = stages_[stage];
    place_.stage = {stage, stages};
    place_.tensor.rank = static_cast<std::size_t>(found - stages_[stage].begin());
    place_.tensor.size = tensor.size();
  }
  if (stages > 1) tensor_ = std::make_unique<Communicator>(world, tensor);
}

}  // namespace tp
