#pragma once

#include "parallel/exchange/communication_thread.h"
#include "parallel/exchange/tracer.h"
#include "parallel/machine/fiber.h"
#include "tp/communicator.h"

#include <functional>

namespace tp {

// Whether MPI accepts calls from several threads, one at a time (MPI_THREAD_SERIALIZED).
bool can_overlap();

// Runs both computations on this thread, while a background thread performs their all-reduces. `first`
// begins. Whenever one computation starts an all-reduce, the other resumes, so their sums alternate. Each
// computation must perform the same number of sums on every rank, so that all ranks compute the sums in the
// same order. `first` reaches its n-th sum before `second` begins the work that leads to its own n-th sum.
// Other collectives wait for the sums in flight. Collective. Throws CommError. If a computation throws, the
// exception is rethrown after the objects of both computations are destroyed.
void overlap(Communicator& comm, const std::function<void()>& first, const std::function<void()>& second);

// The state of a running overlap(), for use by collectives.
class Overlap {
 public:
  bool is_active() const { return second_ != nullptr; }
  CommunicationThread& thread() { return thread_; }
  // Lets the other computation run, and returns when the caller may continue. Until then, the caller's trace
  // spans are suspended.
  void take_turns();

 private:
  friend void overlap(Communicator& comm, const std::function<void()>& first,
                      const std::function<void()>& second);

  CommunicationThread thread_;
  // Valid while overlap() runs.
  Fiber* second_ = nullptr;
  Tracer* tracer_ = nullptr;
  TraceSpan* span_around_ = nullptr;
};

}  // namespace tp
