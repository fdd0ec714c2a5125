// Makes text from files safe to print.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace tp {

// Replaces control characters, and characters that change the direction of the following text, by '?'. If
// `text` is longer than `longest` bytes, "..." replaces its middle. Otherwise names in a hostile file could
// fill the screen or control the terminal.
std::string printable(std::string_view text, std::size_t longest = 160);

// Replaces control characters by '?' in text that is shown whole. Newlines, tabs and marks of writing
// direction stay, although such marks can make a name look like another.
std::string without_controls(std::string_view text);

// "[4096, 14336]"
std::string printable(std::span<const std::size_t> shape);

}  // namespace tp
