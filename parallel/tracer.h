// Records what this rank does, if it is asked to.
#pragma once

#include "parallel/stopwatch.h"
#include "tp/communicator.h"
#include "tp/trace.h"

#include <cstdint>
#include <vector>

namespace tp {

// Off until start(); then every TraceSpan of this rank's communicator becomes an event.
class Tracer {
 public:
  // Events that a rank keeps: some 30 MB.
  static constexpr std::size_t kCapacity = 1'000'000;

  // Time counts from here; ranks that leave a barrier together share their zero.
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

// The time from its construction to its end, as an event of a tracer, if there is one.
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
  Tracer* tracer_;  // null where nothing is recorded
  TraceEvent event_;
};

// Every rank's trace on rank 0, in rank order; other ranks get an empty vector. Collective. Throws CommError.
std::vector<RankTrace> gather_traces(Communicator& comm);

}  // namespace tp
