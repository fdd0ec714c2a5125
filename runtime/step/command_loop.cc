#include "runtime/step/command_loop.h"

#include "parallel/exchange/archive.h"
#include "parallel/machine/error_text.h"
#include "runtime/protocol/command_archive.h"
#include "tp/error.h"

#include <exception>
#include <utility>

namespace tp {

template <class Work>
auto CommandLoop::in_lockstep(const Work& work) {
  try {
    return work();
  } catch (const std::exception& error) {
    broken_ = true;
    throw LockstepError(error_text(error));
  }
}

void CommandLoop::announce(Command& command) {
  if (worker_.pipeline().stage().is_whole())
    broadcast_object(comm_, command);
  else
    worker_.pipeline().send_command(command);
}

Outputs CommandLoop::run(Command command) {
  return in_lockstep([&] {
    announce(command);
    return worker_.run(command);
  });
}

void CommandLoop::begin(Forward forward) { begun_.push_back(run(std::move(forward))); }

Outputs CommandLoop::finish() {
  Outputs outputs = std::move(begun_.front());
  begun_.pop_front();
  if (worker_.pipeline().stage().is_whole()) return outputs;
  return in_lockstep([&] { return Outputs{.results = worker_.pipeline().receive_results()}; });
}

void CommandLoop::stop(int exit_status) noexcept {
  if (broken_) return;
  try {
    while (!begun_.empty()) finish();
    Command command = Stop{exit_status};
    announce(command);
  } catch (const Error&) {
    // The other ranks have already ended, and the failed rank reports the reason. Without memory, the other
    // ranks still wait: std::bad_alloc ends this process, and with it the job.
  }
}

int follow(Communicator& comm, Worker& worker) {
  while (true) {
    Command command;
    if (worker.pipeline().stage().is_whole())
      broadcast_object(comm, command);
    else
      command = worker.pipeline().receive_command();
    if (const auto* stop = std::get_if<Stop>(&command)) return stop->exit_status;
    worker.run(command);
  }
}

}  // namespace tp
