// Rank 0: chooses the steps that are computed as two half-batches alternately.
#pragma once

#include "runtime/protocol/step_times.h"
#include "runtime/setup/engine_setup.h"
#include "tp/two_batch_overlap.h"

#include <cstddef>

namespace tp {

// Whether steps may be computed as two half-batches: if sums cross a wire, or on request. `possible`: whether
// MPI lets every rank do so. Throws ConfigError.
bool plan_overlap(const EngineOptions& options, const EnginePlan& plan, std::size_t hosts, bool possible);

// The wire's share of a step can be measured only in undivided steps. So now and then a step stays undivided.
class OverlapChoice {
 public:
  // Fewest rows of a divided step. Smaller halves would slow products down by more than the wire makes them
  // wait.
  static constexpr std::size_t kMinRows = 256;
  // Share of a step that sums must spend on the wire for overlap to pay.
  static constexpr double kMinShare = 1.0 / 3.0;
  // At least one of this many large steps stays undivided.
  static constexpr std::size_t kLookEvery = 16;

  explicit OverlapChoice(TwoBatchOverlap mode) : mode_(mode) {}

  // Whether to divide the next step, which has this many rows.
  bool divides(std::size_t rows);
  // Records the time of a step, and the part that its sums spent on the wire. `divided`: the result of
  // divides().
  void add(std::size_t rows, bool divided, double seconds, double wire_seconds);

 private:
  TwoBatchOverlap mode_;
  RecentMedian wire_share_;      // shares in large undivided steps
  std::size_t since_whole_ = 0;  // divided steps since the last undivided step
};

}  // namespace tp
