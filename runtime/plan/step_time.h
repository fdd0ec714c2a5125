// Predicts how long a step takes on one rank of a cluster.
#pragma once

#include "runtime/plan/cluster.h"
#include "runtime/plan/communication.h"
#include "runtime/plan/rank_shape.h"
#include "runtime/plan/step_cost.h"

#include <cstddef>

namespace tp {

// Seconds, by use.
struct StepTime {
  double memory = 0.0;      // reading weights and the cache
  double arithmetic = 0.0;  // multiplying
  WireTime sums{};          // all-reduces
  double control = 0.0;     // between steps

  double compute() const { return memory + arithmetic; }
  double total() const { return compute() + sums.total() + control; }
  StepTime& operator+=(const StepTime& more) {
    memory += more.memory;
    arithmetic += more.arithmetic;
    sums += more.sums;
    control += more.control;
    return *this;
  }
};

// Returns the time of a rank with this shape, one of `ranks` ranks that divide a stage's layers; without
// control. Times of reading and multiplying are added: products of few tokens wait for memory, products of
// many tokens wait for arithmetic, and in between neither hides the other (bench/RESULTS.md compares this
// with measurements).
StepTime step_time(const RankShape& shape, const Cluster& cluster, std::size_t ranks, const StepLoad& load);

}  // namespace tp
