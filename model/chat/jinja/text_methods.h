// The methods of strings, which filters also use.
#pragma once

#include "model/chat/jinja/value.h"

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace tp::jinja {

using TextMethod = Value (*)(const MarkedText& self, Arguments& arguments, Heap& heap);

// Finds a method; null for an unknown name.
TextMethod find_text_method(std::string_view name);
// Finds a method of text_padding.cc; null for an unknown name.
TextMethod find_padding_method(std::string_view name);

// A method whose time depends on each character.
template <TextMethod method>
Value by_character(const MarkedText& self, Arguments& arguments, Heap& heap) {
  heap.budget().spend(self.size() * Budget::kCharacter);
  return method(self, arguments, heap);
}

// Removes `characters` from the ends, or white space if `characters` is null.
std::string_view stripped(std::string_view text, const std::string* characters, bool left, bool right);

// Replaces up to `limit` occurrences from the left; all if `limit` is negative.
MarkedText replaced(const MarkedText& text, const std::string& from, const MarkedText& to, std::int64_t limit,
                    Budget& budget);

// Capitalizes each word. A word begins after a character for which `is_separator` holds.
MarkedText title_case(const MarkedText& text, const std::function<bool(char32_t)>& is_separator);

// The lines of a text, without line ends.
std::vector<std::string_view> lines_of(std::string_view text);

}  // namespace tp::jinja
