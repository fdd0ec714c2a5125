#include "launch/ranks/shutdown_signals.h"

#include "tp/internal/require.h"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <initializer_list>

#include <fcntl.h>
#include <unistd.h>

namespace tp {
namespace {

constexpr std::initializer_list<int> kSignals = {SIGTERM, SIGINT, SIGUSR1};

int ends[2] = {-1, -1};  // both ends of the signal handler's pipe

// A signal is smaller than PIPE_BUF, so one write is atomic.
void tell(int number, siginfo_t* info, void*) {
  const int error = errno;
  const ShutdownSignals::Signal signal{number, info->si_code == SI_USER ? info->si_pid : 0};
  [[maybe_unused]] const ssize_t written = ::write(ends[1], &signal, sizeof(signal));
  errno = error;
}

void handle_all(void (*handler)(int)) {
  for (const int signal : kSignals) ::signal(signal, handler);
}

}  // namespace

ShutdownSignals::ShutdownSignals(std::initializer_list<int> others) {
  require<Error>(::pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0, "cannot make a pipe for signals: {}",
                 std::strerror(errno));
  struct sigaction action = {};
  action.sa_sigaction = tell;
  action.sa_flags = SA_SIGINFO | SA_RESTART;  // MPI's own calls continue
  sigemptyset(&action.sa_mask);
  for (const auto& signals : {kSignals, others}) {
    for (const int signal : signals) sigaction(signal, &action, nullptr);
  }
}

ShutdownSignals::~ShutdownSignals() {
  handle_all(SIG_IGN);  // a signal during destruction has nothing left to stop
  for (int& end : ends) {
    ::close(end);
    end = -1;
  }
}

int ShutdownSignals::descriptor() const { return ends[0]; }

std::optional<ShutdownSignals::Signal> ShutdownSignals::take() {
  Signal signal;
  if (::read(ends[0], &signal, sizeof(signal)) != sizeof(signal)) return std::nullopt;
  return signal;
}

void ShutdownSignals::restore() { handle_all(SIG_DFL); }
void ShutdownSignals::ignore() { handle_all(SIG_IGN); }

}  // namespace tp
