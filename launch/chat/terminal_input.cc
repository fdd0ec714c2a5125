#include "launch/chat/terminal_input.h"

#include "launch/common/interruptions.h"

#include <string_view>

#include <unistd.h>

namespace tp {
namespace {

void send(std::FILE* out, std::string_view sequence) {
  std::fwrite(sequence.data(), 1, sequence.size(), out);
  std::fflush(out);
}

}  // namespace

TerminalInput::Silence::Silence() {
  tcgetattr(STDIN_FILENO, &before_);
  termios silent = before_;
  silent.c_iflag &= ~static_cast<tcflag_t>(ICRNL);  // like in the line editor
  silent.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  silent.c_cc[VMIN] = 1;
  silent.c_cc[VTIME] = 0;
  tcsetattr(STDIN_FILENO, TCSANOW, &silent);
}

TerminalInput::Silence::~Silence() { tcsetattr(STDIN_FILENO, TCSANOW, &before_); }

// Terminals mark pasted text only if a program enables it.
TerminalInput::TerminalInput(std::FILE* out) : out_(out), editor_(out) { send(out_, "\x1b[?2004h"); }

TerminalInput::~TerminalInput() { send(out_, "\x1b[?2004l"); }

InputEvent TerminalInput::read(std::string& message) {
  silence_.reset();
  switch (editor_.read(message)) {
    case TerminalKeys::Event::key:
      return InputEvent::message;
    case TerminalKeys::Event::interrupted:
      return InputEvent::interrupted;
    default:
      return InputEvent::end;
  }
}

void TerminalInput::begin_answer() {
  silence_.emplace();
  Interruptions::take();
}

bool TerminalInput::stops_answer() { return Interruptions::take() || editor_.keys().take_enter(); }

}  // namespace tp
