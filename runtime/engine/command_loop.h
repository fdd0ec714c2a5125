// Broadcasts rank 0's commands to the other ranks.
#pragma once

#include "runtime/engine/command.h"
#include "runtime/engine/outputs.h"
#include "runtime/engine/worker.h"
#include "tp/communicator.h"

namespace tp {

// Rank 0's end: commands passed to it are run by all ranks.
class CommandLoop {
 public:
  // Both must outlive it.
  CommandLoop(Communicator& comm, Worker& worker) : comm_(comm), worker_(worker) {}

  // Throws LockstepError if anything fails, because the other ranks then wait inside a collective and cannot
  // be notified.
  Outputs run(Command command, const MaskSource& masks = {});
  // Makes follow() return this status on the other ranks, unless run() has failed: then they cannot be
  // reached.
  void stop(int exit_status) noexcept;

 private:
  Communicator& comm_;
  Worker& worker_;
  bool broken_ = false;
};

// Ranks > 0: runs rank 0's commands until it stops. Returns its exit status.
int follow(Communicator& comm, Worker& worker);

}  // namespace tp
