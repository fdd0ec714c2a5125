#include "parallel/exchange/overlap.h"

#include "parallel/exchange/mpi_call.h"

#include <cassert>

#include <mpi.h>

namespace tp {

bool can_overlap() {
  int provided = MPI_THREAD_SINGLE;
  TP_MPI(MPI_Query_thread(&provided));
  return provided >= MPI_THREAD_SERIALIZED;
}

void overlap(Communicator& comm, const std::function<void()>& first, const std::function<void()>& second) {
  Overlap& overlap = comm.overlap();
  assert(!overlap.is_active());
  // Destroyed after the fiber: if `first` throws, the fiber's destructor destroys the objects of `second`,
  // which may still use the overlap.
  struct Active {
    Overlap& overlap;
    ~Active() { overlap.second_ = nullptr; }
  };
  const Active active{overlap};
  Fiber fiber(second);
  overlap.second_ = &fiber;
  overlap.tracer_ = &comm.tracer();
  overlap.span_around_ = comm.tracer().innermost();
  first();
  while (!fiber.ended()) fiber.resume();
}

void Overlap::take_turns() {
  if (!second_->is_running() && second_->ended()) return;
  const SuspendedSpans spans(*tracer_, span_around_);
  if (second_->is_running())
    second_->pause();
  else
    second_->resume();
}

}  // namespace tp
