#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tp {

// Bytes that were received from a descriptor, usually standard input, but not consumed yet.
class InputBuffer {
 public:
  static constexpr std::size_t kLongestLine = std::size_t{256} << 20;

  InputBuffer() = default;
  explicit InputBuffer(int descriptor) : descriptor_(descriptor) {}

  // Receives available bytes. Waits for them up to this time (-1: forever, or until a signal). Returns false
  // if none arrived.
  bool fill(int milliseconds);

  // Takes the next received line, without its newline. The last line needs no newline. Throws RequestError
  // for a line that exceeds kLongestLine or the memory, and continues after it.
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
