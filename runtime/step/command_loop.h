// Broadcasts rank 0's commands to the other ranks.
#pragma once

#include "runtime/protocol/command.h"
#include "runtime/protocol/outputs.h"
#include "runtime/step/worker.h"
#include "tp/communicator.h"

#include <deque>

namespace tp {

// Rank 0's side: makes all ranks run a command.
class CommandLoop {
 public:
  // Both arguments must outlive this object.
  CommandLoop(Communicator& comm, Worker& worker) : comm_(comm), worker_(worker) {}

  // run(), begin() and finish() throw LockstepError if anything fails, because the other ranks are then
  // waiting in a collective and cannot be notified.
  Outputs run(Command command, const MaskSource& masks = {});
  // begin() and finish() together run a step. With several stages, further steps may begin before the first
  // one finishes. Steps finish in the order in which they begin.
  void begin(Forward forward, const MaskSource& masks);
  Outputs finish();
  // Makes follow() return this status on the other ranks. Does nothing after a LockstepError, because the
  // other ranks cannot be reached.
  void stop(int exit_status) noexcept;

 private:
  Communicator& comm_;
  Worker& worker_;
  template <class Work>
  auto in_lockstep(const Work& work);
  void announce(Command& command);

  bool broken_ = false;
  std::deque<Outputs> begun_;  // unfinished steps, with outputs if there is only one stage
};

// On ranks other than 0: runs rank 0's commands until Stop, and returns the exit status in Stop.
int follow(Communicator& comm, Worker& worker);

}  // namespace tp
