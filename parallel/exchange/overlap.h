// Alternates two computations: while a sum over ranks of one computation is in flight, the other continues.
#pragma once

#include "parallel/exchange/communication_thread.h"
#include "parallel/exchange/tracer.h"
#include "parallel/machine/fiber.h"
#include "tp/communicator.h"

#include <functional>

namespace tp {

// Whether MPI accepts calls from several threads, one at a time (MPI_THREAD_SERIALIZED).
bool can_overlap();

// Runs both computations on this thread, with their all-reduces in the background. `first` begins; each
// all-reduce of one computation resumes the other, so their sums alternate. The order is equal on all ranks
// if each computation has equally many sums on all ranks. The work of `first` between two sums is complete
// before `second` reaches the same place. Other collectives wait for the sums in flight. Collective. Throws
// CommError, or the exception of a computation after the objects of both are destroyed.
void overlap(Communicator& comm, const std::function<void()>& first, const std::function<void()>& second);

// Collectives use it while overlap() runs.
class Overlap {
 public:
  bool is_active() const { return second_ != nullptr; }
  CommunicationThread& thread() { return thread_; }
  // Lets the other computation run. Returns when the caller's turn comes; its trace spans pause until then.
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
