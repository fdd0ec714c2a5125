#pragma once

namespace tp {

// While this object exists, Ctrl-C (SIGINT) and SIGUSR1, which mpirun forwards, don't end the process but are
// remembered. So are changes of the terminal (SIGWINCH, SIGCONT). Only one object may exist.
class Interruptions {
 public:
  Interruptions();
  ~Interruptions();
  Interruptions(const Interruptions&) = delete;
  Interruptions& operator=(const Interruptions&) = delete;

  // Whether an interruption has occurred since the last call.
  static bool take();

  // Whether the terminal was resized, or the process was stopped and continued, since the last call.
  static bool take_terminal_change();

  // Waits until the descriptor can be read, up to this time (-1: forever), or until one of these signals.
  // Returns whether it can be read.
  static bool wait_for_input(int descriptor, int milliseconds);

  // For ranks without anything to interrupt: ignores SIGINT and SIGUSR1.
  static void ignore();
};

}  // namespace tp
