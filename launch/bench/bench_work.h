// Bytes and operations of a measurement's steps, computed from the model's shapes.
#pragma once

#include "launch/bench/bench_row.h"
#include "runtime/plan/rank_shape.h"
#include "runtime/plan/step_cost.h"
#include "tp/engine.h"

#include <vector>

namespace tp {

class BenchWork {
 public:
  // For an engine that was opened with `options` on `ranks` ranks. Throws ConfigError or CheckpointError.
  BenchWork(const EngineOptions& options, std::size_t ranks, KvType kv_type);

  // Returns the work of one of the row's steps on all ranks. For prefill, returns the mean over the steps.
  StepCost of_step(const BenchRow& row) const;

 private:
  std::vector<RankShape> shapes_;  // [ranks]
};

}  // namespace tp
