#include "launch/input_buffer.h"

#include "launch/interruptions.h"

#include <cerrno>

#include <unistd.h>

namespace tp {

bool InputBuffer::fill(int milliseconds) {
  if (ended_ || !Interruptions::wait_for_input(STDIN_FILENO, milliseconds)) return false;
  char bytes[4096];
  const ssize_t size = ::read(STDIN_FILENO, bytes, sizeof(bytes));
  if (size > 0) bytes_.append(bytes, static_cast<std::size_t>(size));
  if (size == 0 || (size < 0 && errno != EINTR && errno != EAGAIN)) ended_ = true;
  return size > 0;
}

}  // namespace tp
