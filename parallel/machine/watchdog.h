#pragma once

#include "tp/communicator.h"

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>

#include <pthread.h>

namespace tp {

// Watches calls of MPI that wait for the other ranks, silently and for ever: MPI_Init and what creates
// communicators, where a rank may be stopped or run another program, and MPI_Finalize.
class Watchdog {
 public:
  // Until destruction, a thread reports the wait as `waits` says, as one "for the other ranks to ...". After
  // the timeout it calls on_timeout, which must end the process, as the calls cannot be interrupted. If no
  // thread can be created, nothing is reported.
  Watchdog(std::string to_what, WaitOptions waits, std::function<void(const std::string& text)> on_timeout);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  void watch();
  // False if the calls have returned before.
  bool passed(double seconds);

  std::string to_what_;
  WaitOptions waits_;
  std::function<void(const std::string& text)> on_timeout_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_over_ = false;
  // Not a std::thread, which frees memory in the thread: malloc would reserve 64 MB of address space for
  // that.
  pthread_t thread_{};
  bool is_watching_ = false;
};

}  // namespace tp
