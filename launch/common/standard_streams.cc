#include "launch/common/standard_streams.h"

#include <csignal>
#include <initializer_list>

#include <fcntl.h>
#include <unistd.h>

namespace tp {

void open_standard_streams() {
  // A file that may not grow any more (ulimit -f) is an error of the write, as is a full disk.
  ::signal(SIGXFSZ, SIG_IGN);
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(descriptor, F_GETFD) >= 0) continue;
    // open() takes the lowest number that is free, which is this one. Nothing can be written to a descriptor
    // that is open for reading.
    ::open("/dev/null", descriptor == STDERR_FILENO ? O_WRONLY : O_RDONLY);
  }
}

}  // namespace tp
