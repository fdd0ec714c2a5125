// Values that models write without quotes, and what a JSON Schema says of their types.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace tp {

// The types that a schema allows: a sum of these.
using ValueTypes = std::uint8_t;
inline constexpr ValueTypes kText = 1;
inline constexpr ValueTypes kNull = 2;
inline constexpr ValueTypes kBoolean = 4;
inline constexpr ValueTypes kNumber = 8;
inline constexpr ValueTypes kObject = 16;
inline constexpr ValueTypes kList = 32;
inline constexpr ValueTypes kAnyType = 63;

// Limits the reading of schemas for one request, because references multiply them.
class SchemaWork {
 public:
  // Counts parts of schemas; false once there are too many.
  bool charge(std::size_t parts) {
    left_ -= std::min(left_, parts);
    return left_ != 0;
  }

 private:
  std::size_t left_ = 100'000;
};

// The types that `schema`, a part of the schema `root`, allows. Unknown keywords allow every type, and so do
// schemas after the limit.
ValueTypes types_in(const nlohmann::ordered_json& schema, const nlohmann::ordered_json& root,
                    SchemaWork& work);

// A value as JSON. It is a text only if it is none of the other types that are allowed: where texts and
// numbers are, 7 is a number.
std::string value_as_json(std::string_view written, ValueTypes allowed);

}  // namespace tp
