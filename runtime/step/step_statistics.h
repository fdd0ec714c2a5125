// Counts a rank's steps and measures their time.
#pragma once

#include "parallel/machine/stopwatch.h"
#include "tp/communicator.h"
#include "tp/rank_report.h"

#include <cstdint>

namespace tp {

// Measures the time in and between steps. All times are totals since construction or the last reset.
class StepStatistics {
 public:
  explicit StepStatistics(Communicator& comm) : comm_(comm) {}

  void begin_step();
  // `collecting`: seconds of the step spent collecting its outputs, including communication.
  void end_step(double collecting);
  void reset();

  // Includes the time between steps.
  double wall_seconds() const { return step_seconds_ + between_seconds_ + watch_.seconds(); }
  // This rank's time in steps by activity, with waiting time included in `collectives`.
  TimeParts own_time() const;
  // Sets the report's fields about steps, all-reduces and time. Collective, because the ranks compare how
  // long they waited.
  void fill(RankReport& report) const;

 private:
  double exchange_seconds() const;

  Communicator& comm_;
  Stopwatch watch_;  // since the last step began or ended
  std::uint64_t steps_ = 0;
  double step_seconds_ = 0.0;
  double between_seconds_ = 0.0;
  double collecting_seconds_ = 0.0;  // part of step_seconds_
  double exchange_seconds_ = 0.0;    // part of step_seconds_: gathers, exchanges and broadcasts
  double exchanged_before_ = 0.0;    // exchange_seconds() before the current step
};

}  // namespace tp
