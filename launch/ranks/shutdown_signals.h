#pragma once

#include <initializer_list>
#include <optional>

#include <sys/types.h>

namespace tp {

// While it exists, SIGTERM, SIGINT and SIGUSR1 do not end the process but can be read. One at a time.
class ShutdownSignals {
 public:
  struct Signal {
    int number = 0;
    pid_t sender = 0;  // 0 if it came from a terminal
  };

  // `others`: further signals to read.
  explicit ShutdownSignals(std::initializer_list<int> others = {});
  ~ShutdownSignals();
  ShutdownSignals(const ShutdownSignals&) = delete;
  ShutdownSignals& operator=(const ShutdownSignals&) = delete;

  // Readable when there is a signal to take.
  int descriptor() const;
  std::optional<Signal> take();
  // From now on they end the process again.
  static void restore();

  // For ranks that another one ends: nothing happens.
  static void ignore();
};

}  // namespace tp
