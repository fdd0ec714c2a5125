#pragma once

#include <optional>
#include <string>

namespace tp {

// The bytes of standard input that have come and that nobody has taken.
class InputBuffer {
 public:
  // Reads what is there, after waiting for it as long as asked for (-1: for ever, or up to a signal); false
  // if nothing came.
  bool fill(int milliseconds);

  // Takes the next line that has come, without its newline; the last one needs none.
  std::optional<std::string> take_line();

  std::string& bytes() { return bytes_; }

  // Whether standard input has ended: no more will come.
  bool ended() const { return ended_; }

 private:
  std::string bytes_;
  bool ended_ = false;
};

}  // namespace tp
