#pragma once

#include "tp/communicator.h"

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>

#include <pthread.h>

namespace tp {

// Watches MPI calls that would silently wait forever for a rank that is stopped or runs a different program:
// MPI_Init, calls that create communicators, and MPI_Finalize.
class Watchdog {
 public:
  // Until destruction, a separate thread reports a long wait as `waits` specifies: "waited 10 s for the other
  // ranks to", followed by `to_what`. After the timeout, the thread calls `on_timeout`, which must end the
  // process, because the MPI calls cannot be interrupted. If the thread cannot be created, nothing is
  // reported. Both times begin again if this process was suspended.
  Watchdog(std::string to_what, WaitOptions waits, std::function<void(const std::string& text)> on_timeout);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  void watch();
  // Waits for `seconds` without a suspension. Returns false if the watched calls return sooner.
  bool passed(double seconds);

  std::string to_what_;
  WaitOptions waits_;
  std::function<void(const std::string& text)> on_timeout_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_over_ = false;
  // Not a std::thread, which would free memory inside the new thread: malloc would then reserve 64 MB of
  // address space for a second heap.
  pthread_t thread_{};
  bool is_watching_ = false;
};

}  // namespace tp
