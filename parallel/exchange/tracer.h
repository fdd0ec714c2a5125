// Records a timeline of this rank's activities, when enabled.
#pragma once

#include "parallel/machine/stopwatch.h"
#include "tp/communicator.h"
#include "tp/trace.h"

#include <cstdint>
#include <utility>
#include <vector>

namespace tp {

class TraceSpan;

// Disabled until start() is called. From then on, every TraceSpan of this rank's communicator is recorded.
class Tracer {
 public:
  // Largest number of events that a rank keeps (32 MB).
  static constexpr std::size_t kCapacity = 1'000'000;

  // Deletes all events and sets the time to zero. Call it on all ranks right after a barrier, so that their
  // times agree.
  void start();
  bool on() const { return on_; }
  double now() const { return watch_.seconds(); }
  void add(const TraceEvent& event);
  const RankTrace& trace() const { return trace_; }
  // The innermost open span, or null.
  TraceSpan* innermost() const { return innermost_; }

 private:
  friend class TraceSpan;
  friend class SuspendedSpans;

  bool on_ = false;
  TraceSpan* innermost_ = nullptr;
  Stopwatch watch_;
  RankTrace trace_;
};

// An event that lasts from construction to destruction. The spans of a thread must be nested.
class TraceSpan {
 public:
  TraceSpan(Tracer* tracer, Activity activity, std::uint64_t detail)
      : tracer_(tracer != nullptr && tracer->on() ? tracer : nullptr),
        event_{tracer_ != nullptr ? tracer_->now() : 0.0, 0.0, detail, activity} {
    if (tracer_ != nullptr) outer_ = std::exchange(tracer_->innermost_, this);
  }
  TraceSpan(Communicator& comm, Activity activity, std::uint64_t detail)
      : TraceSpan(&comm.tracer(), activity, detail) {}
  ~TraceSpan() {
    if (tracer_ == nullptr) return;
    record();
    tracer_->innermost_ = outer_;
  }
  TraceSpan(const TraceSpan&) = delete;
  TraceSpan& operator=(const TraceSpan&) = delete;

 private:
  friend class SuspendedSpans;

  void record() {
    event_.end = tracer_->now();
    tracer_->add(event_);
  }

  Tracer* tracer_;  // null if nothing is recorded
  TraceSpan* outer_ = nullptr;
  TraceEvent event_;
};

// Suspends the spans inside `around`, from construction to destruction, while another computation runs.
// Otherwise, they would overlap the other computation's spans. The suspension splits each of these spans into
// two events.
class SuspendedSpans {
 public:
  SuspendedSpans(Tracer& tracer, TraceSpan* around)
      : tracer_(tracer), around_(around), innermost_(std::exchange(tracer.innermost_, around)) {
    for_all([](TraceSpan& span) { span.record(); });
  }
  ~SuspendedSpans() {
    for_all([&](TraceSpan& span) { span.event_.begin = tracer_.now(); });
    tracer_.innermost_ = innermost_;
  }
  SuspendedSpans(const SuspendedSpans&) = delete;
  SuspendedSpans& operator=(const SuspendedSpans&) = delete;

 private:
  template <class Use>
  void for_all(const Use& use) const {
    for (TraceSpan* span = innermost_; span != around_; span = span->outer_) use(*span);
  }

  Tracer& tracer_;
  TraceSpan* around_;
  TraceSpan* innermost_;
};

// Rank 0 receives every rank's trace, in rank order; other ranks get an empty vector. Collective. Throws
// CommError.
std::vector<RankTrace> gather_traces(Communicator& comm);

}  // namespace tp
