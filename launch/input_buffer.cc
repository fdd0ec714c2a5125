#include "launch/input_buffer.h"

#include "launch/interruptions.h"

#include <cerrno>

#include <unistd.h>

namespace tp {

bool InputBuffer::fill(int milliseconds) {
  if (ended_ || !Interruptions::wait_for_input(STDIN_FILENO, milliseconds)) return false;
  char bytes[1 << 16];
  const ssize_t size = ::read(STDIN_FILENO, bytes, sizeof(bytes));
  if (size > 0) bytes_.append(bytes, static_cast<std::size_t>(size));
  if (size == 0 || (size < 0 && errno != EINTR && errno != EAGAIN)) ended_ = true;
  return size > 0;
}

std::optional<std::string> InputBuffer::take_line() {
  const std::size_t end = bytes_.find('\n');
  const bool is_last = end == std::string::npos && ended_ && !bytes_.empty();
  if (end == std::string::npos && !is_last) return std::nullopt;
  std::string line = bytes_.substr(0, end);
  bytes_.erase(0, is_last ? bytes_.size() : end + 1);
  return line;
}

}  // namespace tp
