// JSON texts of clients and models, which may be written to exhaust the parser.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace tp {

// Copies and dumps of a JSON value recurse once per level.
inline constexpr std::size_t kMaxJsonDepth = 200;

// Why a text is not parsed.
enum class JsonExcess : std::uint8_t { none, depth, members };

// Limits the texts of one request together. nlohmann's ordered parser compares the name of every member with
// the names before it, so the time grows with the square of an object's members.
class BoundedJson {
 public:
  // Looks at a text, which need not be JSON, without parsing it.
  JsonExcess admit(std::string_view text);
  // Parses a text; nothing if it is not JSON or exceeds a limit.
  std::optional<nlohmann::ordered_json> parse(std::string_view text);

 private:
  std::size_t comparisons_ = 0;  // of names, so far
};

}  // namespace tp
