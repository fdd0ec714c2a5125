// What the engine counts, measures and records, and how rank 0 asks for it.

#include "parallel/collectives.h"
#include "parallel/tracer.h"
#include "runtime/engine_impl.h"
#include "runtime/rank_report.h"

#include <algorithm>
#include <utility>

namespace tp {

void Engine::Impl::run_forward(const Step& step, const OutputSink& sink) {
  between_steps_seconds_ += watch_.restart();
  const double gathered_before = comm_.stats().gather.seconds;
  {
    const TraceSpan span(comm_, Activity::step, step.tokens.size());
    executor_->run(step, sink);
  }
  gather_seconds_ += comm_.stats().gather.seconds - gathered_before;
  step_seconds_ += watch_.restart();
  steps_ += 1;
}

void Engine::Impl::report() {
  const double waiting = waiting_seconds(comm_);
  const CommStats& stats = comm_.stats();
  RankReport report = describe_rank();
  report.threads = info_.threads;
  report.weight_bytes = info_.weight_bytes;
  report.bytes_read = info_.bytes_read;
  report.cache_bytes = info_.cache_bytes;
  report.workspace_bytes = info_.workspace_bytes;
  report.steps = steps_;
  report.all_reduces = stats.all_reduce.calls;
  report.all_reduce_bytes = stats.all_reduce.bytes;
  report.all_reduce_seconds = stats.all_reduce.seconds;
  report.gather_seconds = gather_seconds_;
  report.time.compute = step_seconds_ - report.all_reduce_seconds - gather_seconds_;
  report.time.collectives = report.all_reduce_seconds - waiting + gather_seconds_;
  report.time.waiting = waiting;  // rank 0 adds the rest
  reports_ = gather_values(comm_, report);
}

void Engine::Impl::reset_counts() {
  comm_.stats() = CommStats{};
  steps_ = 0;
  step_seconds_ = 0.0;
  between_steps_seconds_ = 0.0;
  gather_seconds_ = 0.0;
  sampling_seconds_ = 0.0;
  watch_.restart();
}

// Rank 0: a step without tokens.
void Engine::Impl::lead(Step::Kind kind) {
  Step step;
  step.kind = kind;
  lead(step, {});
}

std::vector<RankReport> Engine::Impl::reports() {
  const double wall = step_seconds_ + between_steps_seconds_ + watch_.seconds();
  lead(Step::Kind::report);
  for (RankReport& report : reports_) {
    // Between steps all ranks do what rank 0 does, or wait for it.
    const TimeParts& time = report.time;
    const double between = std::max(0.0, wall - time.compute - time.collectives - time.waiting);
    report.time.sampling = std::min(sampling_seconds_, between);
    report.time.control = between - report.time.sampling;
  }
  return std::move(reports_);
}

void Engine::Impl::reset_statistics() { lead(Step::Kind::reset_stats); }

void Engine::Impl::start_trace() { lead(Step::Kind::start_trace); }

std::vector<RankTrace> Engine::Impl::traces() {
  lead(Step::Kind::trace);
  return std::move(traces_);
}

}  // namespace tp
