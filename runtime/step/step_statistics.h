// The time that a rank spends.
#pragma once

#include "parallel/machine/stopwatch.h"
#include "tp/communicator.h"
#include "tp/rank_report.h"

#include <cstdint>

namespace tp {

// Measures the time in steps and between them, since construction or the last reset.
class StepStatistics {
 public:
  explicit StepStatistics(Communicator& comm) : comm_(comm) {}

  void begin_step();
  // `collecting`: seconds of the step spent collecting its outputs, including communication.
  void end_step(double collecting);
  void reset();

  // Since construction or the last reset.
  double wall_seconds() const { return step_seconds_ + between_seconds_ + watch_.seconds(); }
  // Time that this rank's steps spent; waiting is part of the collectives.
  TimeParts own_time() const;
  // Collective, because the ranks compare how long they waited. Fills in the steps, their all-reduces and
  // where their time went.
  void fill(RankReport& report) const;

 private:
  double exchange_seconds() const;

  Communicator& comm_;
  Stopwatch watch_;  // since the last step began or ended
  std::uint64_t steps_ = 0;
  double step_seconds_ = 0.0;
  double between_seconds_ = 0.0;
  double collecting_seconds_ = 0.0;  // within steps
  double exchange_seconds_ = 0.0;    // part of that in collectives, including the wait for other ranks
  double exchanged_before_ = 0.0;    // before the current step
};

}  // namespace tp
