#pragma once

#include "tp/communicator.h"

#include <condition_variable>
#include <functional>
#include <mutex>

#include <pthread.h>

namespace tp {

// Watches the start of MPI, which waits for all ranks of the job without a word: for one that has been
// stopped, or that runs another program and never starts MPI.
class StartWatch {
 public:
  // Until its end a thread tells of a wait as `waits` says. After the timeout it calls on_timeout, which must
  // end the process: MPI_Init cannot be left. Where there can be no thread nothing is told.
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
  // Not of std::thread, which frees memory in the thread: malloc would keep 64 MB of address space for that.
  pthread_t thread_{};
  bool is_watching_ = false;
};

}  // namespace tp
