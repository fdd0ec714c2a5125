// Standard input as a conversation needs it: lines, what is waiting, and interruptions.
#pragma once

#include <optional>
#include <string>

namespace tp {

// While it exists, Ctrl-C (SIGINT) and SIGUSR1, which mpirun passes on, do not end the process but are
// remembered. One at a time.
class Interruptions {
 public:
  Interruptions();
  ~Interruptions();
  Interruptions(const Interruptions&) = delete;
  Interruptions& operator=(const Interruptions&) = delete;

  // Whether there was one since it was asked last.
  static bool take();

  // For ranks that have nothing to interrupt: both signals do nothing.
  static void ignore();
};

enum class InputEvent { line, end, interrupted };

class LineInput {
 public:
  // Waits for the next line, without its end.
  InputEvent read(std::string& line);

  // Whether there is something to read, or the end, without waiting for it.
  bool is_waiting();

  // Takes an empty line if it is the next one and already there.
  bool take_empty_line();

 private:
  // Reads what is there, after waiting for it as long as asked for (-1: for ever); false if nothing came.
  bool fill(int milliseconds);
  std::optional<std::string> take_line();

  std::string buffer_;
  bool ended_ = false;
};

}  // namespace tp
