// Where a rank's time goes.
#pragma once

#include "parallel/stopwatch.h"
#include "tp/communicator.h"
#include "tp/rank_report.h"

#include <cstdint>

namespace tp {

// Times steps, and what is between them, since it was made or reset.
class StepStatistics {
 public:
  explicit StepStatistics(Communicator& comm) : comm_(comm) {}

  void begin_step();
  // `collecting`: seconds of the step in which its outputs were collected, with the exchanges for that.
  void end_step(double collecting);
  void reset();

  // Since then, up to now.
  double wall_seconds() const { return step_seconds_ + between_seconds_ + watch_.seconds(); }
  // Collective: the ranks compare how long they waited. Fills in the steps and the parts of their time.
  void fill(RankReport& report) const;

 private:
  double exchange_seconds() const;

  Communicator& comm_;
  Stopwatch watch_;  // since the last step began or ended
  std::uint64_t steps_ = 0;
  double step_seconds_ = 0.0;
  double between_seconds_ = 0.0;
  double collecting_seconds_ = 0.0;  // within steps
  double exchange_seconds_ = 0.0;    // within that: waiting for other ranks included
  double exchanged_before_ = 0.0;    // the step at hand
};

}  // namespace tp
