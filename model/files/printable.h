// Text out of a file, made fit for an error message.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace tp {

// `text` with control characters, and those that change the direction of the text that follows, replaced by
// '?' and, if it has more than `longest` bytes, its middle by
// "...". Names in a hostile file could otherwise fill the screen or steer the terminal.
std::string printable(std::string_view text, std::size_t longest = 160);

// The same of a text that is shown for its own sake, whole: newlines and tabs stay, and marks of a script's
// direction, with which a name could look like another one.
std::string without_controls(std::string_view text);

// "[4096, 14336]"
std::string printable(std::span<const std::size_t> shape);

}  // namespace tp
