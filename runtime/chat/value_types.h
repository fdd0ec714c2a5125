// Converts models' unquoted values to JSON, by the types that a JSON Schema allows.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace tp {

// The types that a schema allows, as a sum of the constants below.
using ValueTypes = std::uint8_t;
inline constexpr ValueTypes kText = 1;
inline constexpr ValueTypes kNull = 2;
inline constexpr ValueTypes kBoolean = 4;
inline constexpr ValueTypes kNumber = 8;
inline constexpr ValueTypes kObject = 16;
inline constexpr ValueTypes kList = 32;
inline constexpr ValueTypes kAnyType = 63;

// Limits the work of reading one request's schemas, because references multiply it.
class SchemaWork {
 public:
  // Charges parts of schemas; returns false once the limit is reached.
  bool charge(std::size_t parts) {
    left_ -= std::min(left_, parts);
    return left_ != 0;
  }

 private:
  std::size_t left_ = 100'000;
};

// The types that `schema`, a part of the schema `root`, allows. Unknown keywords allow every type, and so
// does a schema beyond the work limit.
ValueTypes types_in(const nlohmann::ordered_json& schema, const nlohmann::ordered_json& root,
                    SchemaWork& work);

// A value as JSON. It becomes a text only if it has none of the other allowed types: if texts and numbers are
// allowed, 7 is a number.
std::string value_as_json(std::string_view written, ValueTypes allowed);

}  // namespace tp
