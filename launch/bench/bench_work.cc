#include "launch/bench/bench_work.h"

#include "launch/options/model_path.h"
#include "runtime/setup/engine_setup.h"

#include <algorithm>
#include <memory>

namespace tp {
namespace {

// Returns the load of the row's mean step.
StepLoad load_of(const BenchRow& row) {
  const std::size_t tokens = std::max<std::size_t>(row.tokens / row.steps, 1);
  const bool generates = row.phase != "prefill" && row.phase != "embed";
  if (generates) {
    // With draft tokens, steps have more rows than accepted tokens. The number is unknown here.
    return {.tokens = tokens,
            .sequences = std::min(row.batch, tokens),
            .context = row.prompt + row.tokens / row.batch / 2,
            .outputs = tokens};
  }
  const std::size_t sequences = std::clamp<std::size_t>(tokens / row.prompt, 1, row.batch);
  return {.tokens = tokens,
          .sequences = sequences,
          .context = (row.prompt - std::min(row.prompt, tokens / sequences)) / 2,
          .outputs = row.phase == "prefill" ? std::max<std::size_t>(row.batch / row.steps, 1) : 0};
}

}  // namespace

BenchWork::BenchWork(const EngineOptions& options, std::size_t ranks, KvType kv_type) {
  EngineOptions opened = options;
  opened.kv_type = kv_type;
  if (!opened.synthetic) opened.model = find_model(opened.model);
  const EnginePlan plan = make_plan(opened, ranks);
  const ModelSpec spec = plan.spec();
  const std::unique_ptr<WeightSource> source = open_weights(plan);
  const std::size_t there = plan.pretends() ? ranks / plan.options.pipeline : plan.ranks;
  for (std::size_t stage = 0; stage < plan.options.pipeline; ++stage) {
    for (std::size_t rank = 0; rank < there; ++rank)
      shapes_.push_back(shape_of_rank(spec, plan, *source, plan.tp(rank), {stage, plan.options.pipeline}));
  }
}

StepCost BenchWork::of_step(const BenchRow& row) const {
  const StepLoad load = load_of(row);
  StepCost cost;
  for (const RankShape& shape : shapes_) cost += step_cost(shape, load);
  return cost;
}

}  // namespace tp
