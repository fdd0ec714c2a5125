// How rank 0's commands reach the other ranks.
#pragma once

#include "runtime/engine/command.h"
#include "runtime/engine/outputs.h"
#include "runtime/engine/worker.h"
#include "tp/communicator.h"

namespace tp {

// Rank 0's end: what it is told to run, all ranks run.
class CommandLoop {
 public:
  // Both must outlive it.
  CommandLoop(Communicator& comm, Worker& worker) : comm_(comm), worker_(worker) {}

  // Throws LockstepError: the other ranks wait inside a collective, and cannot be told of an error.
  Outputs run(Command command, const MaskSource& masks = {});
  // Lets the others return from follow() with this status, unless run() has failed: then they are beyond
  // reach.
  void stop(int exit_status) noexcept;

 private:
  Communicator& comm_;
  Worker& worker_;
  bool broken_ = false;
};

// Ranks > 0: runs rank 0's commands until it stops. Returns its exit status.
int follow(Communicator& comm, Worker& worker);

}  // namespace tp
