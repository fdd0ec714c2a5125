#include "runtime/constraint/schema/schema_disjoint.h"

#include "runtime/constraint/schema/json_numbers.h"
#include "runtime/constraint/schema/schema_scalars.h"

#include <algorithm>
#include <optional>
#include <string>

namespace tp::constraint {
namespace {

constexpr std::size_t kMaxComparedDepth = 8;

// As for validators, a missing `type` allows all types.
bool may_have_type(const SchemaJson& schema, const std::string& type) {
  if (!schema.contains("type")) return true;
  const SchemaJson types = listed_types(schema);
  const auto has = [&](const char* name) {
    return std::ranges::find(types, SchemaJson(name)) != types.end();
  };
  return has(type.c_str()) || (type == "number" && has("integer"));
}

bool may_allow(const SchemaJson& schema, const SchemaJson& value) {
  if (const std::optional<SchemaJson> values = listed_values(schema))
    return std::ranges::any_of(*values, [&](const SchemaJson& one) { return is_same_value(one, value); });
  if (!schema.contains("type")) return true;
  return std::ranges::any_of(listed_types(schema), [&](const SchemaJson& type) {
    return !type.is_string() || has_type(value, type.get<std::string>());
  });
}

bool values_differ(const SchemaJson& a, const SchemaJson& b) {
  const std::optional<SchemaJson> values = listed_values(a);
  return values &&
         std::ranges::none_of(*values, [&](const SchemaJson& value) { return may_allow(b, value); });
}

// Whether all numbers of `a` are less than all numbers of `b`.
bool is_below(const SchemaJson& a, const SchemaJson& b) {
  for (const char* upper : {"maximum", "exclusiveMaximum"}) {
    for (const char* lower : {"minimum", "exclusiveMinimum"}) {
      if (!a.contains(upper) || !b.contains(lower) || !a[upper].is_number() || !b[lower].is_number())
        continue;
      const double highest = a[upper].get<double>();
      const double lowest = b[lower].get<double>();
      const bool inclusive = upper[0] == 'm' && lower[0] == 'm';
      if (highest < lowest || (highest == lowest && !inclusive)) return true;
    }
  }
  return false;
}

bool requires_property(const SchemaJson& schema, const std::string& name) {
  const auto names = schema.find("required");
  return names != schema.end() && names->is_array() &&
         std::ranges::find(*names, SchemaJson(name)) != names->end();
}

bool disjoint(const SchemaJson& a, const SchemaJson& b, std::size_t depth);

// Whether a property that `a` requires distinguishes the objects: `b` rules it out, or allows only other
// values.
bool objects_differ(const SchemaJson& a, const SchemaJson& b, std::size_t depth) {
  const SchemaJson left = a.value("properties", SchemaJson::object());
  const SchemaJson right = b.value("properties", SchemaJson::object());
  for (const auto& [name, property] : left.items()) {
    if (!requires_property(a, name)) continue;
    const bool is_ruled_out = !right.contains(name) && !b.contains("patternProperties") &&
                              b.value("additionalProperties", SchemaJson(true)) == false;
    if (is_ruled_out) return true;
    if (right.contains(name) && disjoint(property, right[name], depth + 1)) return true;
  }
  return false;
}

bool differ_as(const std::string& type, const SchemaJson& a, const SchemaJson& b, std::size_t depth) {
  if (!may_have_type(a, type) || !may_have_type(b, type)) return true;
  if (type == "number") return is_below(a, b) || is_below(b, a);
  return type == "object" && (objects_differ(a, b, depth) || objects_differ(b, a, depth));
}

// Whether a schema in `allOf` of `a` excludes `b`.
bool part_is_disjoint(const SchemaJson& a, const SchemaJson& b, std::size_t depth) {
  const auto parts = a.find("allOf");
  return parts != a.end() && parts->is_array() &&
         std::ranges::any_of(*parts, [&](const SchemaJson& part) { return disjoint(part, b, depth + 1); });
}

bool disjoint(const SchemaJson& a, const SchemaJson& b, std::size_t depth) {
  if (a == false || b == false) return true;
  if (depth > kMaxComparedDepth || !a.is_object() || !b.is_object()) return false;
  if (part_is_disjoint(a, b, depth) || part_is_disjoint(b, a, depth)) return true;
  if (values_differ(a, b) || values_differ(b, a)) return true;
  for (const char* type : {"object", "array", "string", "number", "boolean", "null"}) {
    if (!differ_as(type, a, b, depth)) return false;
  }
  return true;
}

}  // namespace

void require_disjoint(const std::vector<SchemaJson>& branches, const SchemaPlace& place) {
  constexpr std::size_t kMaxBranches = 100;
  if (branches.size() > kMaxBranches)
    place.fail(fmt::format("at most {} branches", kMaxBranches), std::to_string(branches.size()),
               "use `anyOf`");
  for (std::size_t i = 0; i < branches.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (!disjoint(branches[i], branches[j], 0))
        place.fail("branches that exclude each other (by type, values, bounds or required properties)",
                   fmt::format("that {} and {} may both hold", j, i), "use `anyOf`");
    }
  }
}

}  // namespace tp::constraint
