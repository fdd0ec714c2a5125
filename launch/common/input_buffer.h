#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tp {

// The bytes of a descriptor, usually standard input, that have been received and not yet consumed.
class InputBuffer {
 public:
  static constexpr std::size_t kLongestLine = std::size_t{256} << 20;

  InputBuffer() = default;
  explicit InputBuffer(int descriptor) : descriptor_(descriptor) {}

  // Reads what is there, after waiting for it as long as asked for (-1: for ever, or up to a signal); false
  // if nothing came.
  bool fill(int milliseconds);

  // Takes the next line that has come, without its newline; the last one needs none. Throws RequestError in
  // place of a line that is longer than kLongestLine or than memory has room for, and goes on behind it.
  std::optional<std::string> take_line();

  std::string& bytes() { return bytes_; }

  // Whether the input has ended.
  bool ended() const { return ended_; }

 private:
  enum class Line { kept, dropped, ended };  // state of the next line; ended: its end must be reported

  void add(std::string_view text);
  void keep(std::string_view text);

  int descriptor_ = 0;  // STDIN_FILENO
  std::string bytes_;
  bool has_line_ = false;  // bytes_ holds a newline
  Line line_ = Line::kept;
  bool ended_ = false;
};

}  // namespace tp
