#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tp {

// The event that the last byte of a JSON text completed.
enum class JsonEvent : std::uint8_t {
  none,
  begin_object,
  end_object,
  begin_array,
  end_array,
  key,      // a member's key; see text()
  string,   // a value; see text()
  invalid,  // the text cannot become JSON any more
};

// Reads a JSON object or list byte by byte, and stores at most one string of it. Repairs frequent mistakes of
// models: control characters and lone backslashes in strings; True, False and None.
class JsonScanner {
 public:
  JsonEvent push(char byte);

  // Number of open objects and lists: 0 before and after the value.
  std::size_t depth() const { return open_.size(); }
  bool is_complete() const { return expected_ == Expected::nothing; }
  // Whether the last byte belongs to a number, true, false or null.
  bool is_in_word() const { return expected_ == Expected::rest_of_word; }
  // The string that was completed last, without escapes.
  std::string text() const;
  // The JSON text that the last byte adds: often the byte itself, and nothing while an escape is incomplete.
  std::string_view written() const { return written_; }

 private:
  enum class Expected : std::uint8_t {
    value,
    value_or_end,
    key,
    key_or_end,
    colon,
    comma_or_end,
    rest_of_string,
    rest_of_word,  // a number, true, false, null
    nothing,
  };

  JsonEvent begin_value(char byte);
  JsonEvent open(char byte);
  JsonEvent close(char byte);
  bool add_to_word(char byte);
  JsonEvent in_string(char byte);
  JsonEvent in_escape(char byte);
  JsonEvent begin_string(char quote, bool is_key);
  JsonEvent end_string();
  JsonEvent add(std::string_view text);
  JsonEvent fail();

  Expected expected_ = Expected::value;
  std::vector<char> open_{};  // '{' or '['
  std::string text_{};        // current string or word, as JSON
  std::string escape_{};      // incomplete escape in the string
  std::string written_{};
  char quote_ = '"';
  bool is_key_ = false;
  bool is_none_ = false;  // the word is Python's None
  bool has_failed_ = false;
};

// Repairs an object or a list like the scanner. Returns nullopt if `text` is neither.
std::optional<std::string> repaired_json(std::string_view text);

}  // namespace tp
