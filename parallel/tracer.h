// Records a timeline of what this rank does, when enabled.
#pragma once

#include "parallel/stopwatch.h"
#include "tp/communicator.h"
#include "tp/trace.h"

#include <cstdint>
#include <vector>

namespace tp {

// Disabled until start(); from then on every TraceSpan of this rank's communicator becomes an event.
class Tracer {
 public:
  // Events that a rank keeps, about 30 MB.
  static constexpr std::size_t kCapacity = 1'000'000;

  // Sets the time to zero. Call it on all ranks right after a barrier, so that their times agree.
  void start();
  bool on() const { return on_; }
  double now() const { return watch_.seconds(); }
  void add(const TraceEvent& event);
  const RankTrace& trace() const { return trace_; }

 private:
  bool on_ = false;
  Stopwatch watch_;
  RankTrace trace_;
};

// Records the time from its construction to its destruction as an event.
class TraceSpan {
 public:
  TraceSpan(Tracer* tracer, Activity activity, std::uint64_t detail)
      : tracer_(tracer != nullptr && tracer->on() ? tracer : nullptr),
        event_{tracer_ != nullptr ? tracer_->now() : 0.0, 0.0, detail, activity} {}
  TraceSpan(Communicator& comm, Activity activity, std::uint64_t detail)
      : TraceSpan(&comm.tracer(), activity, detail) {}
  ~TraceSpan() {
    if (tracer_ == nullptr) return;
    event_.end = tracer_->now();
    tracer_->add(event_);
  }
  TraceSpan(const TraceSpan&) = delete;
  TraceSpan& operator=(const TraceSpan&) = delete;

 private:
  Tracer* tracer_;  // null if nothing is recorded
  TraceEvent event_;
};

// Every rank's trace on rank 0, in rank order; other ranks get an empty vector. Collective. Throws CommError.
std::vector<RankTrace> gather_traces(Communicator& comm);

}  // namespace tp
