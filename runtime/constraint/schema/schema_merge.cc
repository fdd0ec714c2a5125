#include "runtime/constraint/schema/schema_merge.h"

#include "runtime/constraint/schema/json_formats.h"
#include "runtime/constraint/schema/schema_strings.h"
#include "runtime/constraint/schema/schema_values.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <string>

namespace tp::constraint {
namespace {

constexpr std::size_t kMaxBranches = 256;

SchemaJson both(const SchemaJson& a, const SchemaJson& b) {
  if (a == b) return a;
  return {{"allOf", SchemaJson::array({a, b})}};
}

SchemaJson as_list(const SchemaJson& json) { return json.is_array() ? json : SchemaJson::array({json}); }

SchemaJson merged_types(const SchemaJson& a, const SchemaJson& b, LanguageBudget& budget) {
  SchemaJson types = SchemaJson::array();
  const SchemaJson left = as_list(a);
  const ValueSet in_left(left, budget);
  const ValueSet in_right(as_list(b), budget);
  const bool all_numbers = in_right.contains("number");
  for (const SchemaJson& type : left) {
    if (in_right.contains(type) || (type == "integer" && all_numbers)) types.push_back(type);
  }
  if (in_left.contains("number") && !all_numbers && in_right.contains("integer") &&
      !in_left.contains("integer"))
    types.push_back("integer");
  return types;
}

SchemaJson common(const SchemaJson& a, const SchemaJson& b, LanguageBudget& budget) {
  SchemaJson values = SchemaJson::array();
  const ValueSet in_b(b, budget);
  for (const SchemaJson& value : a) {
    if (in_b.contains(value)) values.push_back(value);
  }
  return values;
}

SchemaJson united(const SchemaJson& a, const SchemaJson& b, LanguageBudget& budget) {
  SchemaJson names = a;
  ValueSet known(a, budget);
  for (const SchemaJson& name : b) {
    if (known.insert(name)) names.push_back(name);
  }
  return names;
}

// Charges the search for each member of one object among the members of the other object.
void charge_members(const SchemaJson& a, const SchemaJson& b, const char* keyword, LanguageBudget& budget) {
  constexpr std::size_t kComparisonsPerUnit = 8;
  const auto left = a.find(keyword);
  const auto right = b.find(keyword);
  if (left != a.end() && right != b.end()) budget.charge(left->size() * right->size() / kComparisonsPerUnit);
}

bool has_restricted_others(const SchemaJson& schema) {
  return schema.value("additionalProperties", SchemaJson(true)) != true;
}

// Whether `a` restricts properties that it does not list, and patterns decide which properties of `b` these
// are.
bool restricts_by_patterns(const SchemaJson& a, const SchemaJson& b) {
  const SchemaJson left = a.value("patternProperties", SchemaJson::object());
  const SchemaJson right = b.value("patternProperties", SchemaJson::object());
  return has_restricted_others(a) &&
         ((!right.empty() && left != right) || (!left.empty() && b.contains("properties")));
}

SchemaJson merged_patterns(const SchemaJson& a, const SchemaJson& b) {
  SchemaJson all = a;
  for (const auto& [pattern, schema] : b.items())
    all[pattern] = a.contains(pattern) ? both(a[pattern], schema) : schema;
  return all;
}

// Joins properties. If only one schema lists a property, `additionalProperties` of the other schema apply to
// it.
SchemaJson merged_properties(const SchemaJson& a, const SchemaJson& b) {
  const auto properties_of = [](const SchemaJson& schema) {
    return schema.value("properties", SchemaJson::object());
  };
  const auto with_others = [](const SchemaJson& property, const SchemaJson& other) {
    return has_restricted_others(other) ? both(property, other["additionalProperties"]) : property;
  };
  const SchemaJson left = properties_of(a);
  const SchemaJson right = properties_of(b);
  SchemaJson all = SchemaJson::object();
  for (const auto& [name, property] : left.items())
    all[name] = right.contains(name) ? both(property, right[name]) : with_others(property, b);
  for (const auto& [name, property] : right.items()) {
    if (!left.contains(name)) all[name] = with_others(property, a);
  }
  return all;
}

// Joins every branch of `a` with every branch of `b`.
SchemaJson merged_branches(const SchemaJson& a, const SchemaJson& b, const SchemaPlace& place) {
  require<RequestError>(
      a.size() * b.size() <= kMaxBranches,
      "the JSON Schema at `{}`: expected at most {} combinations of `anyOf`, found {}; simplify it",
      place.pointer, kMaxBranches, a.size() * b.size());
  SchemaJson branches = SchemaJson::array();
  for (const SchemaJson& left : a) {
    for (const SchemaJson& right : b) branches.push_back(both(left, right));
  }
  return branches;
}

SchemaJson joined_patterns(const SchemaJson& a, const SchemaJson& b, const SchemaPlace& place) {
  read_pattern(a, place);
  read_pattern(b, place);
  return both_patterns(a.get<std::string>(), b.get<std::string>());
}

SchemaJson common_multiple(const SchemaJson& a, const SchemaJson& b, const SchemaPlace& place) {
  constexpr std::int64_t kMax = 1000000000;
  const auto left = a.get<std::int64_t>();
  const auto right = b.get<std::int64_t>();
  if (left <= 0 || right <= 0 || left > kMax || right > kMax)
    place.at("multipleOf")
        .fail(fmt::format("numbers from 1 to {}", kMax),
              SchemaDocument::shown(a) + " and " + SchemaDocument::shown(b), "correct them");
  return std::lcm(left, right);
}

SchemaJson merged_values(const std::string& keyword, const SchemaJson& a, const SchemaJson& b,
                         const SchemaPlace& place, LanguageBudget& budget) {
  constexpr std::array kLargest = {"minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"};
  constexpr std::array kSmallest = {"maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"};
  if (a == b) return a;
  if (std::ranges::find(kLargest, keyword) != kLargest.end() && a.is_number() && b.is_number())
    return std::max(a, b);
  if (std::ranges::find(kSmallest, keyword) != kSmallest.end() && a.is_number() && b.is_number())
    return std::min(a, b);
  if (keyword == "type") return merged_types(a, b, budget);
  if (keyword == "enum" && a.is_array() && b.is_array()) return common(a, b, budget);
  if (keyword == "required" && a.is_array() && b.is_array()) return united(a, b, budget);
  constexpr std::array kSchemas = {"items", "additionalProperties", "propertyNames", "unevaluatedProperties",
                                   "unevaluatedItems"};
  if (std::ranges::find(kSchemas, keyword) != kSchemas.end()) return both(a, b);
  if (keyword == "uniqueItems") return true;
  if ((keyword == "anyOf" || keyword == "oneOf") && a.is_array() && b.is_array())
    return merged_branches(a, b, place);
  if (keyword == "patternProperties" && a.is_object() && b.is_object()) return merged_patterns(a, b);
  if (keyword == "pattern") return joined_patterns(a, b, place);
  if (keyword == "format") return format_pattern(a) ? a : b;  // the other is an annotation
  if (keyword == "multipleOf" && a.is_number_integer() && b.is_number_integer())
    return common_multiple(a, b, place);
  place.at(keyword).fail_unsupported("`" + keyword + "` in several schemas that must hold together",
                                     "write it once");
}

// Replaces `const` by an `enum` with one value.
SchemaJson with_enum(SchemaJson schema, LanguageBudget& budget) {
  const auto value = schema.find("const");
  if (value == schema.end()) return schema;
  const SchemaJson values = SchemaJson::array({*value});
  schema.erase("const");
  if (schema.contains("enum") && schema["enum"].is_array())
    schema["enum"] = common(schema["enum"], values, budget);
  else
    schema["enum"] = values;
  return schema;
}

}  // namespace

SchemaJson merged(const SchemaJson& left, const SchemaJson& right, const SchemaPlace& place,
                  LanguageBudget& budget) {
  if (left == false || right == false) return false;
  if (left == true) return right;
  if (right == true) return left;
  const SchemaJson a = with_enum(left, budget);
  const SchemaJson b = with_enum(right, budget);
  for (const char* keyword : {"properties", "patternProperties"}) charge_members(a, b, keyword, budget);
  if (restricts_by_patterns(a, b) || restricts_by_patterns(b, a))
    place.at("patternProperties")
        .fail_unsupported(
            "`patternProperties` beside the `additionalProperties` of another schema that must hold, too,",
            "write them in the same schema");
  const auto positional = [](const SchemaJson& schema) { return schema.contains("prefixItems"); };
  if ((positional(a) && b.contains("items")) || (positional(b) && a.contains("items")))
    place.fail_unsupported("`prefixItems` and `items` in several schemas that must hold together",
                           "write them in the same schema");
  SchemaJson all = SchemaJson::object();
  for (const auto& [keyword, value] : a.items()) {
    if (keyword != "properties")
      all[keyword] = b.contains(keyword) ? merged_values(keyword, value, b[keyword], place, budget) : value;
  }
  for (const auto& [keyword, value] : b.items()) {
    if (keyword != "properties" && !a.contains(keyword)) all[keyword] = value;
  }
  if (a.contains("properties") || b.contains("properties")) all["properties"] = merged_properties(a, b);
  return all;
}

}  // namespace tp::constraint
