// Broadcasts rank 0's commands to the other ranks.
#pragma once

#include "runtime/protocol/command.h"
#include "runtime/protocol/outputs.h"
#include "runtime/step/worker.h"
#include "tp/communicator.h"

#include <deque>

namespace tp {

// Rank 0's end: commands passed to it are run by all ranks.
class CommandLoop {
 public:
  // Both must outlive it.
  CommandLoop(Communicator& comm, Worker& worker) : comm_(comm), worker_(worker) {}

  // All throw LockstepError if anything fails, because the other ranks then wait inside a collective and
  // cannot be notified.
  Outputs run(Command command, const MaskSource& masks = {});
  // A step in two halves: with several stages others may begin before it is finished. Steps are finished in
  // the order in which they begin.
  void begin(Forward forward, const MaskSource& masks);
  Outputs finish();
  // Makes follow() return this status on the other ranks, unless run() has failed: then they cannot be
  // reached.
  void stop(int exit_status) noexcept;

 private:
  Communicator& comm_;
  Worker& worker_;
  template <class Work>
  auto in_lockstep(const Work& work);
  void announce(Command& command);

  bool broken_ = false;
  std::deque<Outputs> begun_;  // steps, with their outputs if there is one stage
};

// Ranks > 0: runs rank 0's commands until it stops. Returns its exit status.
int follow(Communicator& comm, Worker& worker);

}  // namespace tp
