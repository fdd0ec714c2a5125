#include "launch/common/interruptions.h"

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <initializer_list>

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace tp {
namespace {

volatile std::sig_atomic_t interrupted = 0;
volatile std::sig_atomic_t terminal_changed = 0;

// Wakes the waiting thread, because any thread may handle a signal, and the signal may arrive before the
// wait.
int wake_up = -1;

void wake() {
  const int error = errno;
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_up, &one, sizeof(one));
  errno = error;
}

void remember(int) {
  interrupted = 1;
  wake();
}

void remember_terminal(int) {
  terminal_changed = 1;
  wake();
}

void handle(int signal, void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;  // MPI's own calls continue
  sigemptyset(&action.sa_mask);
  sigaction(signal, &action, nullptr);
}

bool take_flag(volatile std::sig_atomic_t& flag) {
  const bool found = flag != 0;
  flag = 0;
  return found;
}

}  // namespace

Interruptions::Interruptions() {
  wake_up = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  for (const int signal : {SIGINT, SIGUSR1}) handle(signal, remember);
  for (const int signal : {SIGWINCH, SIGCONT}) handle(signal, remember_terminal);
}

Interruptions::~Interruptions() {
  for (const int signal : {SIGINT, SIGUSR1, SIGWINCH, SIGCONT}) handle(signal, SIG_DFL);
  ::close(wake_up);
  wake_up = -1;
}

bool Interruptions::wait_for_input(int descriptor, int milliseconds) {
  pollfd waiting[] = {{descriptor, POLLIN, 0}, {wake_up, POLLIN, 0}};
  if (::poll(waiting, 2, milliseconds) <= 0) return false;
  std::uint64_t count = 0;
  if (waiting[1].revents != 0 && ::read(wake_up, &count, sizeof(count)) < 0) return false;
  return waiting[0].revents != 0;
}

bool Interruptions::take() { return take_flag(interrupted); }

bool Interruptions::take_terminal_change() { return take_flag(terminal_changed); }

void Interruptions::ignore() {
  for (const int signal : {SIGINT, SIGUSR1}) handle(signal, SIG_IGN);
}

}  // namespace tp
