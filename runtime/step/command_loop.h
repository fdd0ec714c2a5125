// Runs rank 0's commands on all ranks.
#pragma once

#include "runtime/protocol/command.h"
#include "runtime/protocol/outputs.h"
#include "runtime/step/worker.h"
#include "tp/communicator.h"

#include <deque>

namespace tp {

// Rank 0's side of the loop.
class CommandLoop {
 public:
  // Both arguments must outlive this object.
  CommandLoop(Communicator& comm, Worker& worker) : comm_(comm), worker_(worker) {}

  // run(), begin() and finish() throw LockstepError if anything fails, because the other ranks are then
  // waiting in a collective and cannot be notified.
  Outputs run(Command command);
  // Together, begin() and finish() run a step. With several stages, further steps may begin before the first
  // one finishes. Steps finish in the order in which they begin.
  void begin(Forward forward);
  Outputs finish();
  // Makes follow() return this status on the other ranks. Does nothing after a LockstepError, because the
  // other ranks can no longer be reached. Calls std::terminate if there is no memory for the command.
  void stop(int exit_status) noexcept;
  // Whether a command has failed, so that no other can be run.
  bool is_broken() const { return broken_; }

 private:
  Communicator& comm_;
  Worker& worker_;
  template <class Work>
  auto in_lockstep(const Work& work);
  void announce(Command& command);

  bool broken_ = false;
  std::deque<Outputs> begun_;  // unfinished steps; with several stages, their outputs are still empty
};

// On ranks other than 0: runs rank 0's commands until Stop, and returns Stop's exit status.
int follow(Communicator& comm, Worker& worker);

}  // namespace tp
