// On rank 0: which steps are computed as two half-batches in turns.
#pragma once

#include "runtime/protocol/step_times.h"
#include "runtime/setup/engine_setup.h"
#include "tp/two_batch_overlap.h"

#include <cstddef>

namespace tp {

// Whether steps may be computed as two half-batches: where sums cross a wire, or where it is asked for.
// `possible`: whether MPI lets every rank do it. Throws ConfigError.
bool plan_overlap(const EngineOptions& options, const EnginePlan& plan, std::size_t hosts, bool possible);

// The wire's share of a step shows only in steps that are computed as a whole. So now and then one is,
// although it need not be.
class OverlapChoice {
 public:
  // Halves of fewer rows than half of this would make products slower than the wire makes them wait.
  static constexpr std::size_t kLeastRows = 256;
  // The share of a step that sums spend on the wire, above which it pays to compute meanwhile.
  static constexpr double kLeastShare = 1.0 / 3.0;
  // Of so many steps that are large enough, one is computed as a whole at least.
  static constexpr std::size_t kLookEvery = 16;

  explicit OverlapChoice(TwoBatchOverlap mode) : mode_(mode) {}

  // Whether the next step, of so many rows, is divided.
  bool divides(std::size_t rows);
  // How long a step took, and of this its sums on the wire; `divided` as it was chosen.
  void add(std::size_t rows, bool divided, double seconds, double wire_seconds);

 private:
  TwoBatchOverlap mode_;
  RecentMedian wire_share_;      // of large steps that were whole
  std::size_t since_whole_ = 0;  // steps that were divided
};

}  // namespace tp
