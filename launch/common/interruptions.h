#pragma once

namespace tp {

// While it exists, Ctrl-C (SIGINT) and SIGUSR1, which mpirun forwards, do not end the process but are
// remembered, and so are changes of the terminal (SIGWINCH, SIGCONT). One at a time.
class Interruptions {
 public:
  Interruptions();
  ~Interruptions();
  Interruptions(const Interruptions&) = delete;
  Interruptions& operator=(const Interruptions&) = delete;

  // Whether there was one since the last call.
  static bool take();

  // Whether since the last call the terminal was resized or the process was stopped and continued.
  static bool take_terminal_change();

  // Whether there is something to read at that descriptor, after waiting for it up to this long (-1: for
  // ever) or until one of those signals came.
  static bool wait_for_input(int descriptor, int milliseconds);

  // For ranks that have nothing to interrupt: SIGINT and SIGUSR1 do nothing.
  static void ignore();
};

}  // namespace tp
