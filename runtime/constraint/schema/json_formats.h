// The formats of JSON Schema and OpenAPI that are enforced. All others are annotations.
#pragma once

#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

namespace tp::constraint {

// A regular expression that a text of the format matches as a whole, or nothing. It is stricter than the
// standards where they disagree with each other, or allow what nobody reads.
std::optional<std::string> format_pattern(const nlohmann::ordered_json& format);

// The bounds of a format of integers, such as int32.
struct IntegerFormat {
  std::string least;
  std::string greatest;
};
std::optional<IntegerFormat> integer_format(const nlohmann::ordered_json& format);

}  // namespace tp::constraint
