#include "model/files/json_fault.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

namespace tp {
namespace {

// A part of the library's message, and our words for it.
struct Words {
  std::string_view theirs;
  std::string_view ours;
};

// The first match counts.
constexpr Words kFaults[] = {
    {"ill-formed UTF-8", "expected UTF-8, found other bytes"},
    {"byte order mark", "expected JSON, found an incomplete byte order mark"},
    {"must be escaped", "expected a text without control characters, found one; write \\n for a line break"},
    {"missing closing quote", "expected a closing quotation mark, found none"},
    {"forbidden character after backslash", "expected an escape such as \\n, found another character"},
    {"must be followed by 4 hex", "expected four hexadecimal digits after \\u, found others"},
    {"surrogate", "expected pairs of surrogates, found half of one"},
    {"invalid number", "expected a whole or decimal number, found an incomplete one"},
    {"invalid literal", "expected a value such as \"text\", 1, true or null, found other characters"},
    {"number overflow", "expected a number of 64 bits, found a larger one"},
    {"comment", "expected JSON, found a comment"},
    {"empty input", "expected a value, found the end of the text"},
};

constexpr Words kExpected[] = {{"; expected end of input", "the end of the text"},
                               {"parsing object key", "a name in quotation marks"},
                               {"parsing object separator", "a colon after a name"},
                               {"parsing object", "a comma or }"},
                               {"parsing array", "a comma or ]"},
                               {"parsing value", "a value"}};

constexpr Words kFound[] = {{"unexpected end of input", "the end of the text"},
                            {"unexpected string literal", "a text"},
                            {"unexpected number literal", "a number"},
                            {"unexpected true literal", "true"},
                            {"unexpected false literal", "false"},
                            {"unexpected null literal", "null"},
                            {"unexpected '{'", "{"},
                            {"unexpected '}'", "}"},
                            {"unexpected '['", "["},
                            {"unexpected ']'", "]"},
                            {"unexpected ':'", "a colon"},
                            {"unexpected ','", "a comma"}};

template <std::size_t Size>
std::string_view find_words(const Words (&table)[Size], std::string_view message,
                            std::string_view otherwise) {
  const auto* const found = std::ranges::find_if(
      table, [&](const Words& words) { return message.find(words.theirs) != message.npos; });
  return found == std::end(table) ? otherwise : found->ours;
}

// "line 1, column 4" of "... at line 1, column 4: ..."; empty without a place.
std::string_view place_in(std::string_view message) {
  const std::size_t begin = message.find("line ");
  const std::size_t end = begin == message.npos ? begin : message.find(':', begin);
  return end == message.npos ? std::string_view() : message.substr(begin, end - begin);
}

}  // namespace

std::string json_fault(const nlohmann::json::exception& error) {
  std::string_view message = error.what();
  const std::string_view place = place_in(message);
  if (place.empty()) return std::string(find_words(kFaults, message, "expected a value of another type"));
  message.remove_prefix(message.find(place) + place.size());
  // The rest of the message is a quotation.
  message = message.substr(0, message.find("; last read"));
  const std::string_view fault = find_words(kFaults, message, "");
  if (!fault.empty()) return fmt::format("{}: {}", place, fault);
  return fmt::format("{}: expected {}, found {}", place, find_words(kExpected, message, "JSON"),
                     find_words(kFound, message, "something else"));
}

}  // namespace tp
