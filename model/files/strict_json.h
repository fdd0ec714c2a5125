// JSON from files and requests, which is untrusted.
#pragma once

#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace tp {

// Why a text is refused, for the reader of an error: "parse error at line 1, column 3: ...".
class JsonError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Parses a text to nlohmann::json or, where members keep their order, nlohmann::ordered_json. Stricter than
// the library in two ways: an object that has a key twice is an error, where the library keeps the last
// value, and so is nesting deeper than 64 levels, whose printing would exhaust the stack. Throws JsonError.
template <class Json = nlohmann::json>
Json parse_strict_json(std::string_view text);

using OnRepeatedKey = std::function<void(const std::string& key)>;

// Parses a file that Python may have written, with Python's rules. The last value of a repeated key counts,
// and `on_repeated` is called with one such key of every object that has any. Infinity, -Infinity and NaN
// become strings: no reader here uses fields that have them. Throws JsonError.
nlohmann::json parse_python_json(std::string_view text, OnRepeatedKey on_repeated);

extern template nlohmann::json parse_strict_json(std::string_view text);
extern template nlohmann::ordered_json parse_strict_json(std::string_view text);

}  // namespace tp
