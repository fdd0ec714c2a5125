// Parses JSON from files and requests, which are untrusted.
#pragma once

#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace tp {

// The reason why a text is refused, for an error: "parse error at line 1, column 3: ...".
class JsonError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Parses a text to nlohmann::json, or to nlohmann::ordered_json, which keeps the order of members. Throws
// JsonError. Stricter than the library in two ways: repeated keys are errors (the library keeps the last
// value), and so is nesting deeper than 64 levels, because printing it could exhaust the stack.
template <class Json = nlohmann::json>
Json parse_strict_json(std::string_view text);

using OnRepeatedKey = std::function<void(const std::string& key)>;

// Parses a file that Python may have written, by Python's rules. The last value of a repeated key counts;
// `on_repeated` is called with one repeated key of each object that has any. Infinity, -Infinity and NaN
// become strings, because no reader here uses fields with these values. Objects like {"__float__":
// "Infinity"}, in which transformers 5 writes them, become strings, too. Throws JsonError.
nlohmann::json parse_python_json(std::string_view text, OnRepeatedKey on_repeated);

extern template nlohmann::json parse_strict_json(std::string_view text);
extern template nlohmann::ordered_json parse_strict_json(std::string_view text);

}  // namespace tp
