#include "launch/line_input.h"

#include <cerrno>
#include <csignal>

#include <poll.h>
#include <unistd.h>

namespace tp {
namespace {

volatile std::sig_atomic_t interrupted = 0;

void remember(int) { interrupted = 1; }

void handle(int signal, void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;  // MPI's own calls go on; poll() ends all the same
  sigemptyset(&action.sa_mask);
  sigaction(signal, &action, nullptr);
}

}  // namespace

Interruptions::Interruptions() {
  handle(SIGINT, remember);
  handle(SIGUSR1, remember);
}

Interruptions::~Interruptions() {
  handle(SIGINT, SIG_DFL);
  handle(SIGUSR1, SIG_DFL);
}

bool Interruptions::take() {
  const bool found = interrupted != 0;
  interrupted = 0;
  return found;
}

void Interruptions::ignore() {
  handle(SIGINT, SIG_IGN);
  handle(SIGUSR1, SIG_IGN);
}

std::optional<std::string> LineInput::take_line() {
  const std::size_t end = buffer_.find('\n');
  const bool is_last = end == std::string::npos && ended_ && !buffer_.empty();
  if (end == std::string::npos && !is_last) return std::nullopt;
  std::string line = buffer_.substr(0, end);
  buffer_.erase(0, is_last ? buffer_.size() : end + 1);
  if (line.ends_with('\r')) line.pop_back();
  return line;
}

bool LineInput::fill(int milliseconds) {
  pollfd input = {STDIN_FILENO, POLLIN, 0};
  if (ended_ || ::poll(&input, 1, milliseconds) <= 0) return false;
  char bytes[4096];
  const ssize_t size = ::read(STDIN_FILENO, bytes, sizeof(bytes));
  if (size > 0) buffer_.append(bytes, static_cast<std::size_t>(size));
  if (size == 0 || (size < 0 && errno != EINTR && errno != EAGAIN)) ended_ = true;
  return size > 0;
}

InputEvent LineInput::read(std::string& line) {
  while (true) {
    if (std::optional<std::string> found = take_line()) {
      line = *std::move(found);
      return InputEvent::line;
    }
    if (ended_) return InputEvent::end;
    if (Interruptions::take()) return InputEvent::interrupted;
    fill(-1);
  }
}

bool LineInput::is_waiting() {
  if (buffer_.empty()) fill(0);
  return ended_ || !buffer_.empty();
}

bool LineInput::take_empty_line() {
  if (buffer_.empty()) fill(0);
  if (!buffer_.starts_with('\n') && !buffer_.starts_with("\r\n")) return false;
  take_line();
  return true;
}

}  // namespace tp
