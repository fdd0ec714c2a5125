#include "runtime/gateway/message_output.h"

#include <algorithm>
#include <climits>
#include <cstddef>

#include <poll.h>
#include <unistd.h>

namespace tp {

void write_or_drop(std::string_view text) {
  while (!text.empty()) {
    pollfd stream{STDERR_FILENO, POLLOUT, 0};
    if (::poll(&stream, 1, 0) <= 0 || (stream.revents & POLLOUT) == 0) return;
    const ssize_t written = ::write(STDERR_FILENO, text.data(), std::min<std::size_t>(text.size(), PIPE_BUF));
    if (written <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace tp
