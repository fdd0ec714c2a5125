// The methods of strings, also used by filters.
#pragma once

#include "model/chat/jinja/value.h"

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tp::jinja {

using TextMethod = Value (*)(const MarkedText& self, Arguments& arguments, Heap& heap);

// Null if there is none of this name.
TextMethod find_text_method(std::string_view name);
// The part of them that text_padding.cc has.
TextMethod find_padding_method(std::string_view name);

// Without `characters` at its ends, or, if null, without white space.
std::string_view stripped(std::string_view text, const std::string* characters, bool left, bool right);

// Up to `limit` of them, from the left; all if it is negative.
MarkedText replaced(const MarkedText& text, const std::string& from, const MarkedText& to, std::int64_t limit,
                    Budget& budget);

// Every word capitalized, where a word begins after a character for which `is_separator` holds.
MarkedText title_case(const MarkedText& text, const std::function<bool(char32_t)>& is_separator);

// The parts that line ends separate.
std::vector<std::string_view> lines_of(std::string_view text);

}  // namespace tp::jinja
