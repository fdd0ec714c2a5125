#include "launch/chat/line_input.h"

#include "launch/chat/escape_sequences.h"
#include "launch/common/interruptions.h"
#include "launch/common/message.h"

namespace tp {

std::optional<std::string> LineInput::take_line() {
  std::optional<std::string> line = input_.take_line();
  if (!line) return std::nullopt;
  if (line->ends_with('\r')) line->pop_back();
  // A script's message may contain escape sequences. A person has pressed a key without a function here.
  return console_.has_person ? without_escape_sequences(*line) : line;
}

InputEvent LineInput::read(std::string& message) {
  if (console_.has_person) {
    print_note("> ", console_.notes);
    std::fflush(console_.notes);
  }
  while (true) {
    if (std::optional<std::string> line = take_line()) {
      message = *std::move(line);
      return InputEvent::message;
    }
    if (input_.ended()) return InputEvent::end;
    if (Interruptions::take()) return InputEvent::interrupted;
    input_.fill(-1);
  }
}

void LineInput::begin_answer() {
  // Lines that a script wrote before the answer don't stop it. Only new lines do.
  if (input_.bytes().empty()) input_.fill(0);
  typed_ahead_ = input_.ended() || !input_.bytes().empty();
  Interruptions::take();
}

bool LineInput::stops_answer() { return Interruptions::take() || (!typed_ahead_ && take_empty_line()); }

bool LineInput::take_empty_line() {
  std::string& bytes = input_.bytes();
  if (bytes.empty()) input_.fill(0);
  if (console_.has_person) bytes = without_escape_sequences(bytes);
  if (!bytes.starts_with('\n') && !bytes.starts_with("\r\n")) return false;
  take_line();
  return true;
}

}  // namespace tp
