// The formats of JSON Schema and OpenAPI that are enforced. All other formats are annotations.
#pragma once

#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

namespace tp::constraint {

// A regular expression that texts of the format match as a whole; nothing for other formats. Stricter than
// the standards if they disagree with each other, or allow forms that no program reads.
std::optional<std::string> format_pattern(const nlohmann::ordered_json& format);

// The bounds of a format of integers, such as int32.
struct IntegerFormat {
  std::string least;
  std::string greatest;
};
std::optional<IntegerFormat> integer_format(const nlohmann::ordered_json& format);

}  // namespace tp::constraint
