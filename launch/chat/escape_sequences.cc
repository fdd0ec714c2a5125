#include "launch/chat/escape_sequences.h"

#include <algorithm>

namespace tp {
namespace {

constexpr char kEscape = '\x1b';

// Returns the size of a sequence that begins with ESC [ . Parameters precede one final character.
std::size_t control_sequence_size(std::string_view text) {
  if (text.size() > 2 && text[2] == '[')
    return text.size() > 3 ? 4 : kIncompleteSequence;  // F1 on Linux's console
  const auto is_parameter = [](char c) { return c >= ' ' && c <= '?'; };
  const auto* const end = std::find_if_not(text.begin() + 2, text.end(), is_parameter);
  if (end == text.end()) return kIncompleteSequence;
  const bool is_final = *end >= '@' && *end <= '~';
  return static_cast<std::size_t>(end - text.begin()) + (is_final ? 1 : 0);
}

}  // namespace

std::size_t escape_sequence_size(std::string_view text) {
  if (!text.starts_with(kEscape)) return 0;
  if (text.size() == 1) return kIncompleteSequence;
  if (text[1] == '[') return control_sequence_size(text);
  if (text[1] == 'O') return text.size() > 2 ? 3 : kIncompleteSequence;
  return 1;
}

std::string without_escape_sequences(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const std::size_t plain = std::min(text.find(kEscape), text.size());
    result += text.substr(0, plain);
    text.remove_prefix(plain);
    text.remove_prefix(std::min(escape_sequence_size(text), text.size()));
  }
  return result;
}

}  // namespace tp
