#include "runtime/constraint/schema/schema_disjoint.h"

#include "runtime/constraint/schema/json_numbers.h"
#include "runtime/constraint/schema/schema_scalars.h"
#include "runtime/constraint/schema/schema_values.h"

#include <algorithm>
#include <array>
#include <map>
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

std::size_t parts_in(const SchemaJson& schema, const char* keyword) {
  const auto found = schema.find(keyword);
  return found != schema.end() && found->is_structured() ? found->size() : 0;
}

// Compares schemas that are not changed meanwhile.
class Comparison {
 public:
  explicit Comparison(LanguageBudget& budget) : budget_(budget) {}

  bool disjoint(const SchemaJson& a, const SchemaJson& b, std::size_t depth) {
    if (a == false || b == false) return true;
    if (depth > kMaxComparedDepth || !a.is_object() || !b.is_object()) return false;
    budget_.charge(1 + (parts_in(a, "type") + parts_in(b, "type")) * kTypes.size() / 2);
    if (part_is_disjoint(a, b, depth) || part_is_disjoint(b, a, depth)) return true;
    if (values_differ(a, b)) return true;
    return std::ranges::all_of(kTypes, [&](const char* type) { return differ_as(type, a, b, depth); });
  }

 private:
  static constexpr std::array kTypes = {"object", "array", "string", "number", "boolean", "null"};

  struct Listed {
    std::vector<SchemaJson> values;  // without repetitions
    ValueSet set;
  };

  // The values that a schema lists; null if it lists none. They are collected once, for all comparisons.
  const Listed* listed(const SchemaJson& schema) {
    const auto [found, is_new] = listed_.try_emplace(&schema);
    if (is_new) {
      if (const std::optional<SchemaJson> values = listed_values(schema)) {
        Listed& all = found->second.emplace(Listed{.values = {}, .set = ValueSet(budget_)});
        for (const SchemaJson& value : *values) {
          if (all.set.insert(value)) all.values.push_back(value);
        }
      }
    }
    return found->second ? &*found->second : nullptr;
  }

  // Whether a schema lists values, and the other schema allows none of them.
  bool values_differ(const SchemaJson& a, const SchemaJson& b) {
    const Listed* left = listed(a);
    const Listed* right = listed(b);
    if (left != nullptr && right != nullptr) return !left->set.meets(right->set);
    if (left != nullptr) return have_other_types(left->values, b);
    return right != nullptr && have_other_types(right->values, a);
  }

  bool have_other_types(const std::vector<SchemaJson>& values, const SchemaJson& schema) {
    if (!schema.contains("type")) return values.empty();
    const SchemaJson types = listed_types(schema);
    budget_.charge(values.size() * types.size());
    return std::ranges::none_of(values, [&](const SchemaJson& value) {
      return std::ranges::any_of(types, [&](const SchemaJson& type) {
        return !type.is_string() || has_type(value, type.get<std::string>());
      });
    });
  }

  // Whether a property that `a` requires distinguishes the objects: `b` rules it out, or allows only other
  // values.
  bool objects_differ(const SchemaJson& a, const SchemaJson& b, std::size_t depth) {
    constexpr std::size_t kComparisonsPerUnit = 16;
    static const SchemaJson kNone = SchemaJson::object();
    const auto properties_of = [](const SchemaJson& schema) -> const SchemaJson& {
      const auto found = schema.find("properties");
      return found == schema.end() ? kNone : *found;
    };
    const SchemaJson& left = properties_of(a);
    const SchemaJson& right = properties_of(b);
    const std::size_t comparisons = right.size() + parts_in(a, "required");
    const auto others = b.find("additionalProperties");
    const bool is_closed = !b.contains("patternProperties") && others != b.end() && *others == false;
    for (const auto& [name, property] : left.items()) {
      budget_.charge(1 + comparisons / kComparisonsPerUnit);
      if (!requires_property(a, name)) continue;
      const auto other = right.find(name);
      if (other == right.end() ? is_closed : disjoint(property, *other, depth + 1)) return true;
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

  LanguageBudget& budget_;
  std::map<const SchemaJson*, std::optional<Listed>> listed_;
};

}  // namespace

void require_disjoint(const std::vector<SchemaJson>& branches, const SchemaPlace& place,
                      LanguageBudget& budget) {
  constexpr std::size_t kMaxBranches = 100;
  if (branches.size() > kMaxBranches)
    place.fail(fmt::format("at most {} branches", kMaxBranches), std::to_string(branches.size()),
               "use `anyOf`");
  Comparison comparison(budget);
  for (std::size_t i = 0; i < branches.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (!comparison.disjoint(branches[i], branches[j], 0))
        place.fail("branches that exclude each other (by type, values, bounds or required properties)",
                   fmt::format("that {} and {} may both hold", j, i), "use `anyOf`");
    }
  }
}

}  // namespace tp::constraint
