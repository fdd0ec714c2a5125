// Escape sequences: a terminal sends them for keys without a character, such as arrows and function keys.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tp {

constexpr std::size_t kIncompleteSequence = std::string_view::npos;

// Returns the size of the escape sequence at the beginning of `text`: 0 if there is none, 1 for an ESC before
// another character, kIncompleteSequence if the sequence may continue past the end.
std::size_t escape_sequence_size(std::string_view text);

// `text` without any escape sequences.
std::string without_escape_sequences(std::string_view text);

}  // namespace tp
