#include "runtime/plan/step_time.h"

namespace tp {

StepTime step_time(const RankShape& shape, const Cluster& cluster, std::size_t ranks, const StepLoad& load) {
  const StepCost cost = step_cost(shape, load);
  const auto sums = static_cast<double>(shape.work.sums.sums);
  StepTime time{.memory = cost.bytes() / (shape.speed * cluster.rank_bandwidth()),
                .arithmetic = 2.0 * cost.multiplications / (shape.speed * cluster.rank_flops())};
  if (sums > 0.0 && ranks > 1) {
    const double of_each =
        static_cast<double>(shape.work.sums.bytes) * static_cast<double>(load.tokens) / sums;
    time.sums = sums * all_reduce_time(cluster, ranks, of_each, shape.wire_share * of_each);
  }
  return time;
}

}  // namespace tp
