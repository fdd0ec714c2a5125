#include "launch/plan/plan_rows.h"

#include <algorithm>
#include <array>
#include <utility>

namespace tp {
namespace {

PlanRow row_of(const Prediction& prediction, const Cluster& cluster, Division division,
               const std::vector<std::size_t>& batches) {
  PlanRow row{.division = division,
              .hosts = cluster.hosts_of(division.all_ranks()),
              .memory = prediction.memory(division),
              .prefill = prediction.prefill(division),
              .decode = {}};
  for (const std::size_t batch : batches) row.decode.push_back(prediction.decode(division, batch));
  return row;
}

}  // namespace

const char* limit_of(const StepTime& time) {
  const std::array<std::pair<double, const char*>, 5> parts = {{{time.memory, "memory"},
                                                                {time.arithmetic, "arithmetic"},
                                                                {time.sums.latency, "latency"},
                                                                {time.sums.transfer, "transfer"},
                                                                {time.control, "control"}}};
  return std::ranges::max_element(parts, {}, &std::pair<double, const char*>::first)->second;
}

PlanResult make_plan_result(const Prediction& prediction, const Cluster& cluster, const Workload& workload,
                            const std::vector<std::size_t>& batches, const PlannedTokens& tokens,
                            std::size_t hosts) {
  PlanResult result{.workload = workload, .batches = batches, .tokens = tokens, .cluster = cluster};
  const auto row = [&](Division division) { return row_of(prediction, cluster, division, batches); };
  for (std::size_t ranks = 1; ranks <= kMaxPlannedRanks; ranks *= 2) {
    if (const auto refusal = prediction.refusal({1, ranks})) {
      result.tensor_ends = *refusal;
      break;
    }
    result.tensor.push_back(row({1, ranks}));
  }
  const std::size_t each = cluster.ranks_per_host;
  for (std::size_t stages = 2; stages * each <= kMaxPlannedRanks; stages *= 2) {
    const Division division{stages, each};
    if (!prediction.refusal(division)) result.pipeline.push_back(row(division));
  }
  if (tokens.longest == 0) {
    result.fewest_hosts = prediction.fewest_hosts(false);
    result.fewest_hosts_of_stages = prediction.fewest_hosts(true);
  }
  if (hosts == 0) return result;
  const Division asked{1, hosts * each};
  if (const auto refusal = prediction.refusal(asked)) {
    result.asked_refusal = *refusal;
  } else {
    result.asked = row(asked);
    result.asked_copies = prediction.cache_copies(asked);
  }
  if (hosts > 1 && !prediction.refusal({hosts, each})) result.asked_pipeline = row({hosts, each});
  return result;
}

std::size_t last_worthwhile(const std::vector<double>& rates) {
  constexpr double kGain = 1.25;
  std::size_t last = 0;
  while (last + 1 < rates.size() && rates[last + 1] >= kGain * rates[last]) ++last;
  return last;
}

}  // namespace tp
