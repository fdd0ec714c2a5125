#pragma once

#include "tp/communicator.h"

#include <condition_variable>
#include <functional>
#include <mutex>

#include <pthread.h>

namespace tp {

// Watches MPI_Init, which silently waits for all ranks of the job, even for one that is stopped or that runs
// another program and never initializes MPI.
class StartWatch {
 public:
  // Until destruction, a thread reports the wait as `waits` says. After the timeout it calls on_timeout,
  // which must end the process, as MPI_Init cannot be interrupted. If no thread can be created, nothing is
  // reported.
  StartWatch(WaitOptions waits, std::function<void(const std::string& text)> on_timeout);
  ~StartWatch();
  StartWatch(const StartWatch&) = delete;
  StartWatch& operator=(const StartWatch&) = delete;

 private:
  void watch();
  // False if MPI has started before.
  bool passed(double seconds);

  WaitOptions waits_;
  std::function<void(const std::string& text)> on_timeout_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool started_ = false;
  // Not a std::thread, which frees memory in the thread: malloc would reserve 64 MB of address space for
  // that.
  pthread_t thread_{};
  bool is_watching_ = false;
};

}  // namespace tp
