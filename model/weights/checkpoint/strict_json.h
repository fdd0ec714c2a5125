// JSON from files and requests, which is untrusted.
#pragma once

#include <stdexcept>
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

extern template nlohmann::json parse_strict_json(std::string_view text);
extern template nlohmann::ordered_json parse_strict_json(std::string_view text);

}  // namespace tp
