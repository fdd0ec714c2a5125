#pragma once

#include <initializer_list>
#include <optional>

#include <sys/types.h>

namespace tp {

// While this object exists, SIGTERM, SIGINT and SIGUSR1 don't end the process but can be read. Only one
// object may exist.
class ShutdownSignals {
 public:
  struct Signal {
    int number = 0;
    pid_t sender = 0;  // 0 if the signal came from a terminal
  };

  // `others`: additional signals to read.
  explicit ShutdownSignals(std::initializer_list<int> others = {});
  ~ShutdownSignals();
  ShutdownSignals(const ShutdownSignals&) = delete;
  ShutdownSignals& operator=(const ShutdownSignals&) = delete;

  // Readable if a signal can be taken.
  int descriptor() const;
  std::optional<Signal> take();
  // Restores the signals' default action: they end the process.
  static void restore();

  // Ignores the signals, on ranks that another rank ends.
  static void ignore();
};

}  // namespace tp
