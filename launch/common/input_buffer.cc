#include "launch/common/input_buffer.h"

#include "launch/common/interruptions.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <cerrno>
#include <new>
#include <utility>

#include <unistd.h>

namespace tp {

bool InputBuffer::fill(int milliseconds) {
  if (ended_ || !Interruptions::wait_for_input(descriptor_, milliseconds)) return false;
  char bytes[1 << 16];
  const ssize_t size = ::read(descriptor_, bytes, sizeof(bytes));
  if (size > 0) add({bytes, static_cast<std::size_t>(size)});
  if (size == 0 || (size < 0 && errno != EINTR && errno != EAGAIN)) ended_ = true;
  return size > 0;
}

// A dropped line ends at its newline.
void InputBuffer::add(std::string_view text) {
  if (line_ != Line::dropped) return keep(text);
  const std::size_t end = text.find('\n');
  if (end == std::string_view::npos) return;
  line_ = Line::ended;
  keep(text.substr(end + 1));
}

void InputBuffer::keep(std::string_view text) {
  const bool ends_line = text.find('\n') != std::string_view::npos;
  try {
    if (!has_line_ && !ends_line && bytes_.size() > kLongestLine) throw std::bad_alloc();
    bytes_.append(text);
    has_line_ = has_line_ || ends_line;
  } catch (const std::bad_alloc&) {
    bytes_ = std::string();
    has_line_ = false;
    line_ = Line::dropped;
    add(text);
  }
}

std::optional<std::string> InputBuffer::take_line() {
  if (line_ == Line::ended || (line_ == Line::dropped && ended_)) {
    line_ = Line::kept;
    throw_error<RequestError>(
        "the line is too long: expected at most {} MiB, and no more than fits into memory; shorten it",
        kLongestLine >> 20);
  }
  const std::size_t end = has_line_ ? bytes_.find('\n') : std::string::npos;
  if (end == std::string::npos && (!ended_ || bytes_.empty())) return std::nullopt;
  const std::size_t size = std::min(end, bytes_.size());
  // The line is moved, because it may fill most of the memory.
  std::string rest = bytes_.substr(std::min(size + 1, bytes_.size()));
  std::string line = std::exchange(bytes_, std::move(rest));
  line.resize(size);
  has_line_ = bytes_.find('\n') != std::string::npos;
  return line;
}

}  // namespace tp
