#include "launch/common/standard_streams.h"

#include <csignal>
#include <initializer_list>

#include <fcntl.h>
#include <unistd.h>

namespace tp {

void open_standard_streams() {
  // A file that reaches its size limit (ulimit -f) causes a write error, like a full disk.
  ::signal(SIGXFSZ, SIG_IGN);
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(descriptor, F_GETFD) >= 0) continue;
    // open() returns the lowest free number, which is `descriptor`. A descriptor that is open for reading
    // can't be written.
    ::open("/dev/null", descriptor == STDERR_FILENO ? O_WRONLY : O_RDONLY);
  }
}

}  // namespace tp
