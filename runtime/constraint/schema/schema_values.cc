#include "runtime/constraint/schema/schema_values.h"

#include "model/files/json_text.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>

#include <fmt/format.h>

namespace tp::constraint {
namespace {

// Whole numbers have the key of an integer.
void append_number(double value, std::string& key) {
  const double limit = std::ldexp(1.0, 63);
  if (std::trunc(value) != value || value < -limit || value >= 2 * limit)
    key += fmt::format("{}", value);
  else if (value < limit)
    key += fmt::format("{}", static_cast<std::int64_t>(value));
  else
    key += fmt::format("{}", static_cast<std::uint64_t>(value));
}

// Appends a text that equal values share.
void append_key(const SchemaJson& value, std::string& key) {
  if (value.is_number_float()) {
    append_number(value.get<double>(), key);
  } else if (value.is_array()) {
    key += '[';
    for (const SchemaJson& element : value) {
      append_key(element, key);
      key += ',';
    }
    key += ']';
  } else if (value.is_object()) {
    std::map<std::string, const SchemaJson*> members;
    for (const auto& [name, member] : value.items()) members.emplace(name, &member);
    key += '{';
    for (const auto& [name, member] : members) {
      append_key(SchemaJson(name), key);
      key += ':';
      append_key(*member, key);
      key += ',';
    }
    key += '}';
  } else {
    key += json_text(value);
  }
}

}  // namespace

ValueSet::ValueSet(const SchemaJson& list, LanguageBudget& budget) : budget_(&budget) {
  for (const SchemaJson& value : list) insert(value);
}

bool ValueSet::meets(const ValueSet& other) const {
  if (keys_.size() > other.keys_.size()) return other.meets(*this);
  constexpr std::size_t kKeysPerUnit = 4;
  budget_->charge(1 + keys_.size() / kKeysPerUnit);
  return std::ranges::any_of(keys_, [&](const std::string& key) { return other.keys_.contains(key); });
}

std::string ValueSet::key_of(const SchemaJson& value) const {
  constexpr std::size_t kBytesPerUnit = 32;
  std::string key;
  append_key(value, key);
  budget_->charge(1 + key.size() / kBytesPerUnit);
  return key;
}

}  // namespace tp::constraint
