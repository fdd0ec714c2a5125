#include "runtime/setup/overlap_choice.h"

#include "tp/internal/require.h"

namespace tp {

bool plan_overlap(const EngineOptions& options, const EnginePlan& plan, std::size_t hosts, bool possible) {
  const bool divides = can_divide_steps(plan.spec()) && plan.options.pipeline == 1;
  if (options.two_batch_overlap != TwoBatchOverlap::on)
    return options.two_batch_overlap == TwoBatchOverlap::automatic && divides && possible && hosts > 1;
  require<ConfigError>(divides,
                       "cannot divide steps in two: `two_batch_overlap` on needs a model that generates one "
                       "token after the other, in one pipeline stage, found {} in {}; leave it out",
                       plan.config.architecture, plan.options.pipeline);
  require<ConfigError>(
      possible,
      "cannot communicate while computing: `two_batch_overlap` on needs MPI with MPI_THREAD_SERIALIZED on "
      "every rank, found less; initialize MPI with MPI_Init_thread, or leave the option out");
  return true;
}

bool OverlapChoice::divides(std::size_t rows) {
  if (mode_ != TwoBatchOverlap::automatic) return mode_ == TwoBatchOverlap::on;
  if (rows < kMinRows || wire_share_.value() <= kMinShare) return false;
  if (++since_whole_ < kLookEvery) return true;
  since_whole_ = 0;
  return false;
}

void OverlapChoice::add(std::size_t rows, bool divided, double seconds, double wire_seconds) {
  if (divided || rows < kMinRows || seconds <= 0.0) return;
  wire_share_.add(wire_seconds / seconds);
}

}  // namespace tp
