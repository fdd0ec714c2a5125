// Parses JSON of clients and models, which may be designed to exhaust the parser.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace tp {

// Limited, because copies and dumps of a JSON value recurse once per level.
inline constexpr std::size_t kMaxJsonDepth = 200;

// The exceeded limit.
enum class JsonExcess : std::uint8_t { none, depth, members };

// Limits all texts of one request together. nlohmann's ordered parser compares each member's name with all
// earlier names, so its time grows with the square of an object's members.
class BoundedJson {
 public:
  // Checks a text, which need not be JSON, without parsing it.
  JsonExcess admit(std::string_view text);
  // Parses a text. Returns nullopt if the text is not JSON or exceeds a limit.
  std::optional<nlohmann::ordered_json> parse(std::string_view text);

 private:
  std::size_t comparisons_ = 0;  // comparisons of names so far
};

}  // namespace tp
