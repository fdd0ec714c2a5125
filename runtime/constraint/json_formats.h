// The formats of JSON Schema's strings.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tp::constraint {

// A regular expression that strings of the format match as a whole, of a subset on which validators agree;
// nothing for unknown formats.
std::optional<std::string> format_pattern(std::string_view format);

// Their names, for error texts.
std::string known_formats();

}  // namespace tp::constraint
