#include "runtime/engine/command_loop.h"

#include "parallel/archive.h"
#include "parallel/fail_together.h"
#include "runtime/engine/command_archive.h"

#include <exception>

namespace tp {

Outputs CommandLoop::run(Command command, const MaskSource& masks) {
  try {
    broadcast_object(comm_, command);
    return worker_.run(command, masks);
  } catch (const std::exception& error) {
    broken_ = true;
    throw LockstepError(error.what());
  }
}

void CommandLoop::stop(int exit_status) noexcept {
  if (broken_) return;
  try {
    Command command = Stop{exit_status};
    broadcast_object(comm_, command);
  } catch (const std::exception&) {
    // The other ranks have ended already, and the one that failed reports why.
  }
}

int follow(Communicator& comm, Worker& worker) {
  while (true) {
    Command command;
    broadcast_object(comm, command);
    if (const auto* stop = std::get_if<Stop>(&command)) return stop->exit_status;
    worker.run(command);
  }
}

}  // namespace tp
