#include "runtime/step/step_statistics.h"

#include "parallel/exchange/collectives.h"

#include <algorithm>

namespace tp {

// Seconds spent in collectives other than all-reduces.
double StepStatistics::exchange_seconds() const {
  const CommStats& stats = comm_.stats();
  return stats.gather.seconds + stats.exchange.seconds + stats.broadcast.seconds;
}

void StepStatistics::begin_step() {
  between_seconds_ += watch_.restart();
  exchanged_before_ = exchange_seconds();
}

void StepStatistics::end_step(double collecting) {
  exchange_seconds_ += exchange_seconds() - exchanged_before_;
  collecting_seconds_ += collecting;
  step_seconds_ += watch_.restart();
  steps_ += 1;
}

void StepStatistics::reset() {
  comm_.stats() = CommStats{};
  steps_ = 0;
  step_seconds_ = 0.0;
  between_seconds_ = 0.0;
  collecting_seconds_ = 0.0;
  exchange_seconds_ = 0.0;
  watch_.restart();
}

void StepStatistics::fill(RankReport& report) const {
  const double waiting = waiting_seconds(comm_);
  const CommStats& stats = comm_.stats();
  report.steps = steps_;
  report.all_reduces = stats.all_reduce.calls;
  report.all_reduce_bytes = stats.all_reduce.bytes;
  report.all_reduce_seconds = stats.all_reduce.seconds;
  report.wire_bytes = stats.wire.bytes;
  report.wire_seconds = stats.wire.seconds;
  report.inexact_sums = stats.inexact_sums;
  report.gather_seconds = exchange_seconds_;
  report.time = own_time();
  report.time.collectives -= waiting;
  report.time.waiting = waiting;
}

TimeParts StepStatistics::own_time() const {
  const double all_reduces = comm_.stats().all_reduce.seconds;
  TimeParts time;
  time.sampling = std::max(0.0, collecting_seconds_ - exchange_seconds_);
  time.compute = step_seconds_ - all_reduces - exchange_seconds_ - time.sampling;
  time.collectives = all_reduces + exchange_seconds_;
  return time;
}

}  // namespace tp
