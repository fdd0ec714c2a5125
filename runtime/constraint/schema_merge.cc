#include "runtime/constraint/schema_merge.h"

#include <algorithm>
#include <map>
#include <utility>

namespace tp::constraint {
namespace {

constexpr std::size_t kMaxBranches = 64;

SchemaJson both(const SchemaJson& a, const SchemaJson& b) {
  if (a == b) return a;
  return {{"allOf", SchemaJson::array({a, b})}};
}

SchemaJson as_list(const SchemaJson& json) { return json.is_array() ? json : SchemaJson::array({json}); }

bool contains(const SchemaJson& list, const SchemaJson& value) {
  return std::ranges::find(list, value) != list.end();
}

SchemaJson merged_types(const SchemaJson& a, const SchemaJson& b) {
  SchemaJson types = SchemaJson::array();
  const SchemaJson left = as_list(a);
  const SchemaJson right = as_list(b);
  for (const SchemaJson& type : left) {
    if (contains(right, type) || (type == "integer" && contains(right, "number"))) types.push_back(type);
  }
  if (contains(left, "number") && !contains(right, "number") && contains(right, "integer") &&
      !contains(types, "integer"))
    types.push_back("integer");
  return types;
}

SchemaJson common(const SchemaJson& a, const SchemaJson& b) {
  SchemaJson values = SchemaJson::array();
  for (const SchemaJson& value : a) {
    if (contains(b, value)) values.push_back(value);
  }
  return values;
}

SchemaJson united(const SchemaJson& a, const SchemaJson& b) {
  SchemaJson names = a;
  for (const SchemaJson& name : b) {
    if (!contains(names, name)) names.push_back(name);
  }
  return names;
}

// Adds the properties of `b`, to which `additionalProperties` of `a` apply where only `b` has them; and the
// other way round.
SchemaJson merged_properties(const SchemaJson& a, const SchemaJson& b) {
  const auto properties_of = [](const SchemaJson& schema) {
    return schema.value("properties", SchemaJson::object());
  };
  const auto with_others = [](const SchemaJson& property, const SchemaJson& other) {
    const auto rest = other.find("additionalProperties");
    return rest == other.end() || *rest == true ? property : both(property, *rest);
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

// Every branch of one with every branch of the other.
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

SchemaJson merged_values(const std::string& keyword, const SchemaJson& a, const SchemaJson& b,
                         const SchemaPlace& place) {
  constexpr std::array kLargest = {"minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"};
  constexpr std::array kSmallest = {"maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"};
  if (a == b) return a;
  if (std::ranges::find(kLargest, keyword) != kLargest.end() && a.is_number() && b.is_number())
    return std::max(a, b);
  if (std::ranges::find(kSmallest, keyword) != kSmallest.end() && a.is_number() && b.is_number())
    return std::min(a, b);
  if (keyword == "type") return merged_types(a, b);
  if (keyword == "enum" && a.is_array() && b.is_array()) return common(a, b);
  if (keyword == "required" && a.is_array() && b.is_array()) return united(a, b);
  if (keyword == "items" || keyword == "additionalProperties") return both(a, b);
  if (keyword == "uniqueItems") return true;
  if (keyword == "anyOf" && a.is_array() && b.is_array()) return merged_branches(a, b, place);
  place.at(keyword).fail_unsupported("`" + keyword + "` in several schemas that must hold together",
                                     "write it once");
}

// `const` as an `enum` of one value.
SchemaJson with_enum(SchemaJson schema) {
  const auto value = schema.find("const");
  if (value == schema.end()) return schema;
  const SchemaJson values = SchemaJson::array({*value});
  schema.erase("const");
  if (schema.contains("enum") && schema["enum"].is_array())
    schema["enum"] = common(schema["enum"], values);
  else
    schema["enum"] = values;
  return schema;
}

}  // namespace

SchemaJson merged(const SchemaJson& left, const SchemaJson& right, const SchemaPlace& place) {
  if (left == false || right == false) return false;
  if (left == true) return right;
  if (right == true) return left;
  const SchemaJson a = with_enum(left);
  const SchemaJson b = with_enum(right);
  const auto positional = [](const SchemaJson& schema) { return schema.contains("prefixItems"); };
  if ((positional(a) && b.contains("items")) || (positional(b) && a.contains("items")))
    place.fail_unsupported("`prefixItems` and `items` in several schemas that must hold together",
                           "write them in the same schema");
  SchemaJson all = SchemaJson::object();
  for (const auto& [keyword, value] : a.items()) {
    if (!is_annotation(keyword) && keyword != "properties")
      all[keyword] = b.contains(keyword) ? merged_values(keyword, value, b[keyword], place) : value;
  }
  for (const auto& [keyword, value] : b.items()) {
    if (!is_annotation(keyword) && keyword != "properties" && !a.contains(keyword)) all[keyword] = value;
  }
  if (a.contains("properties") || b.contains("properties")) all["properties"] = merged_properties(a, b);
  return all;
}

}  // namespace tp::constraint
