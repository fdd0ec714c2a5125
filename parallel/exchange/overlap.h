// Two computations in turns: while a sum over ranks of one of them is on its way, the other one goes on.
#pragma once

#include "parallel/exchange/communication_thread.h"
#include "parallel/exchange/tracer.h"
#include "parallel/machine/fiber.h"
#include "tp/communicator.h"

#include <functional>

namespace tp {

// Whether MPI was initialized such that another thread than the main one may call it, one at a time
// (MPI_THREAD_SERIALIZED).
bool can_overlap();

// Runs both on this thread. Their all-reduces go on in the background: `first` begins; at each of its
// all-reduces it is `second`'s turn, and the other way round. So their sums alternate, in the same order on
// every rank if both have as many on every rank, and what `first` computes between two sums is complete
// before `second` comes to the same place. Other collectives wait for the sums that are on their way.
// Collective. Throws what either throws, when neither refers to anything any more, and CommError.
void overlap(Communicator& comm, const std::function<void()>& first, const std::function<void()>& second);

// Collectives use it while overlap() runs.
class Overlap {
 public:
  bool is_active() const { return second_ != nullptr; }
  CommunicationThread& thread() { return thread_; }
  // From one of the two: returns when it is its turn again. In a trace its spans are interrupted meanwhile.
  void take_turns();

 private:
  friend void overlap(Communicator& comm, const std::function<void()>& first,
                      const std::function<void()>& second);

  CommunicationThread thread_;
  // While there are two computations.
  Fiber* second_ = nullptr;
  Tracer* tracer_ = nullptr;
  TraceSpan* span_around_ = nullptr;
};

}  // namespace tp
