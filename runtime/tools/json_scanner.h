#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tp {

// What the last byte of a JSON text completed.
enum class JsonEvent : std::uint8_t {
  none,
  begin_object,
  end_object,
  begin_array,
  end_array,
  key,      // of a member; see text()
  string,   // a value; see text()
  invalid,  // this is no JSON, and nothing that follows makes it so
};

// Reads a JSON value byte by byte, an object or a list, without keeping more than a string of it.
class JsonScanner {
 public:
  JsonEvent push(char byte);

  // Objects and lists that are open: 0 before and after the value.
  std::size_t depth() const { return open_.size(); }
  bool is_complete() const { return expected_ == Expected::nothing; }
  // The string that was completed last, with its escapes replaced.
  std::string text() const;

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
  JsonEvent in_string(char byte);
  JsonEvent begin_string(bool is_key);
  JsonEvent fail();

  Expected expected_ = Expected::value;
  std::vector<char> open_{};  // '{' or '['
  std::string text_{};        // of the string or word, as written
  bool is_key_ = false;
  bool is_escaped_ = false;
  bool has_failed_ = false;
};

}  // namespace tp
