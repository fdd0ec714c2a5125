#pragma once

#include "tp/communicator.h"

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>

#include <pthread.h>

namespace tp {

// Watches MPI calls that would silently wait forever for a rank that is stopped or runs another program:
// MPI_Init, calls that create communicators, and MPI_Finalize.
class Watchdog {
 public:
  // Until destruction, a thread reports long waits according to `waits`: "waited 10 s for the other ranks
  // to", then `to_what`. After the timeout it calls on_timeout, which must end the process, because the calls
  // cannot be interrupted. If no thread can be created, nothing is reported.
  Watchdog(std::string to_what, WaitOptions waits, std::function<void(const std::string& text)> on_timeout);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  void watch();
  // Waits. Returns false if the calls return first.
  bool passed(double seconds);

  std::string to_what_;
  WaitOptions waits_;
  std::function<void(const std::string& text)> on_timeout_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_over_ = false;
  // Not a std::thread: it frees memory inside the thread, for which malloc would reserve 64 MB of address
  // space.
  pthread_t thread_{};
  bool is_watching_ = false;
};

}  // namespace tp
