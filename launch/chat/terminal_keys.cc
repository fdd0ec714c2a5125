#include "launch/chat/terminal_keys.h"

#include "launch/chat/escape_sequences.h"
#include "launch/common/interruptions.h"
#include "model/tokenizer/text/utf8.h"

#include <algorithm>

namespace tp {

TerminalKeys::Event TerminalKeys::next(char32_t& key) {
  while (true) {
    while (drop_sequence()) continue;
    if (take_character(key)) return Event::key;
    if (Interruptions::take()) return Event::interrupted;
    if (Interruptions::take_terminal_change()) return Event::terminal_changed;
    if (input_.ended()) return Event::end;
    input_.fill(-1);
  }
}

bool TerminalKeys::drop_sequence() {
  if (passing_ > 0) return false;
  const std::string_view bytes = input_.bytes();
  const std::size_t size = escape_sequence_size(bytes);
  if (size < 2 || size == kIncompleteSequence) return false;
  if (is_known_(bytes.substr(0, size))) {
    passing_ = size;
    return false;
  }
  input_.bytes().erase(0, size);
  return true;
}

bool TerminalKeys::take_character(char32_t& key) {
  std::string& bytes = input_.bytes();
  if (bytes.empty()) return false;
  if (passing_ == 0 && escape_sequence_size(bytes) == kIncompleteSequence) return false;
  const utf8::Character character = utf8::first_character(bytes);
  if (character.status == utf8::Status::truncated) return false;
  key = character.code_point;
  bytes.erase(0, character.length);
  passing_ -= std::min(passing_, character.length);
  return true;
}

std::string TerminalKeys::paste() {
  std::string& bytes = input_.bytes();
  std::size_t end = bytes.find(kPasteEnd);
  for (; end == std::string::npos; end = bytes.find(kPasteEnd)) {
    if (input_.ended() || (!input_.fill(-1) && Interruptions::take())) break;
  }
  std::string pasted;
  utf8::append_repaired(pasted, without_escape_sequences(bytes.substr(0, end)));
  bytes.erase(0, end == std::string::npos ? end : end + kPasteEnd.size());
  for (std::size_t at = pasted.find("\r\n"); at != std::string::npos; at = pasted.find("\r\n", at))
    pasted.erase(at, 1);
  std::replace(pasted.begin(), pasted.end(), '\r', '\n');
  return pasted;
}

bool TerminalKeys::take_enter() {
  while (input_.fill(0)) continue;
  std::string& bytes = input_.bytes();
  const auto is_key = [&] {
    const std::size_t size = escape_sequence_size(bytes);
    return size > 0 && size != kIncompleteSequence && !bytes.starts_with(kPasteBegin);
  };
  while (is_key()) bytes.erase(0, escape_sequence_size(bytes));
  const bool is_enter = bytes.starts_with('\n') || bytes.starts_with('\r');
  if (is_enter) bytes.erase(0, 1);
  return is_enter;
}

}  // namespace tp
