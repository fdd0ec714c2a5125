// What the steps of a measurement read and multiply, as the shapes of the model tell.
#pragma once

#include "launch/bench/bench_row.h"
#include "runtime/plan/rank_shape.h"
#include "runtime/plan/step_cost.h"
#include "tp/engine.h"

#include <vector>

namespace tp {

class BenchWork {
 public:
  // For an engine that was opened with these options on so many ranks. Throws ConfigError or CheckpointError.
  BenchWork(const EngineOptions& options, std::size_t ranks, KvType kv_type);

  // Of one of the row's steps, on all ranks that are there. Of prefill it is the mean.
  StepCost of_step(const BenchRow& row) const;

 private:
  std::vector<RankShape> shapes_;  // of every rank
};

}  // namespace tp
