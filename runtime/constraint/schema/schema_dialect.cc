#include "runtime/constraint/schema/schema_dialect.h"

#include "runtime/constraint/schema/schema_negation.h"
#include "runtime/constraint/schema/schema_scalars.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

namespace tp::constraint {
namespace {

constexpr std::array kDependencies = {"dependencies", "dependentRequired", "dependentSchemas"};

class Normalizer {
 public:
  Normalizer(const SchemaJson& schema, const SchemaDocument& document, const SchemaPlace& place)
      : schema_(schema),
        document_(document),
        place_(place),
        // Without `properties`, objects have properties that no schema lists.
        negation_{.is_open = !schema.contains("properties")} {}

  SchemaJson read(Conditions conditions) {
    for (const auto& [keyword, value] : schema_.items()) {
      if (!is_annotation(keyword)) result_[keyword] = value;
    }
    read_references();
    read_nullable();
    read_bound("minimum", "exclusiveMinimum");
    read_bound("maximum", "exclusiveMaximum");
    read_tuple();
    read_contains();
    if (conditions == Conditions::written_out) read_conditions();
    if (!more_.empty()) result_["allOf"] = more_;
    return std::move(result_);
  }

 private:
  void add(SchemaJson schema) {
    if (more_.empty()) {
      more_ = schema_.value("allOf", SchemaJson::array());
      if (!more_.is_array())
        place_.at("allOf").fail("a list of schemas", SchemaDocument::shown(more_), "correct it");
    }
    more_.push_back(std::move(schema));
  }

  void read_references() {
    for (const char* keyword : {"$dynamicRef", "$recursiveRef"}) {
      if (!schema_.contains(keyword)) continue;
      if (result_.contains("$ref"))
        add({{"$ref", schema_[keyword]}});
      else
        result_["$ref"] = schema_[keyword];
    }
  }

  // OpenAPI 3.0: `nullable` has no effect without `type`.
  void read_nullable() {
    if (schema_.value("nullable", SchemaJson()) != true || !schema_.contains("type")) return;
    result_["type"] = listed_types(schema_);
  }

  // Draft 4: a boolean says whether the bound itself is excluded.
  void read_bound(const char* bound, const char* exclusive) {
    if (!schema_.contains(exclusive) || !schema_[exclusive].is_boolean()) return;
    result_.erase(exclusive);
    if (schema_[exclusive] == false || !schema_.contains(bound)) return;
    result_[exclusive] = schema_[bound];
    result_.erase(bound);
  }

  // Before draft 2020-12, a list in `items` has the meaning of `prefixItems`.
  void read_tuple() {
    if (!schema_.contains("items") || !schema_["items"].is_array() || schema_.contains("prefixItems")) return;
    result_["prefixItems"] = schema_["items"];
    result_.erase("items");
    if (schema_.contains("additionalItems")) result_["items"] = schema_["additionalItems"];
  }

  // Without `contains`, minContains and maxContains have no effect. With `contains`, the default is written
  // out, so that the number of another schema is not joined to this schema.
  void read_contains() {
    if (!schema_.contains("contains")) {
      result_.erase("minContains");
      result_.erase("maxContains");
    } else if (!schema_.contains("minContains")) {
      result_["minContains"] = 1;
    }
  }

  void read_conditions() {
    read_discriminator();
    read_dependencies();
    read_if();
    if (schema_.contains("not")) add(negated(schema_["not"], document_, place_.at("not"), negation_));
  }

  // Every branch requires the property, with one of the values that are mapped to the branch.
  void read_discriminator() {
    const SchemaJson discriminator = schema_.value("discriminator", SchemaJson());
    if (!discriminator.is_object() || !discriminator.value("propertyName", SchemaJson()).is_string()) return;
    const auto name = discriminator["propertyName"].get<std::string>();
    for (const char* keyword : {"oneOf", "anyOf"}) {
      if (!schema_.contains(keyword) || !schema_[keyword].is_array()) continue;
      const SchemaJson mapping = discriminator.value("mapping", SchemaJson());
      constexpr std::size_t kComparisonsPerPart = 16;
      document_.charge(schema_[keyword].size() * mapping.size() / kComparisonsPerPart, place_);
      for (SchemaJson& branch : result_[keyword]) {
        const SchemaJson values = mapped_to(branch, mapping);
        SchemaJson tag = {{"required", SchemaJson::array({name})}};
        if (!values.empty()) tag["properties"] = {{name, {{"enum", values}}}};
        branch = {{"allOf", SchemaJson::array({branch, tag})}};
      }
    }
  }

  static SchemaJson mapped_to(const SchemaJson& branch, const SchemaJson& mapping) {
    SchemaJson values = SchemaJson::array();
    if (!branch.is_object() || !branch.contains("$ref") || !mapping.is_object()) return values;
    for (const auto& [value, reference] : mapping.items()) {
      if (reference == branch["$ref"]) values.push_back(value);
    }
    return values;
  }

  void read_dependencies() {
    for (const char* keyword : kDependencies) {
      if (!schema_.contains(keyword)) continue;
      const SchemaPlace where = place_.at(keyword);
      const SchemaJson& dependencies = schema_[keyword];
      if (!dependencies.is_object())
        where.fail("an object", SchemaDocument::shown(dependencies), "correct it");
      for (const auto& [name, needed] : dependencies.items()) {
        const SchemaJson present = needed.is_array() ? SchemaJson{{"required", needed}} : needed;
        add({{"anyOf", SchemaJson::array({without_property(name, negation_), present})}});
      }
    }
  }

  void read_if() {
    if (!schema_.contains("if") || (!schema_.contains("then") && !schema_.contains("else"))) return;
    const SchemaJson& condition = schema_["if"];
    const SchemaJson otherwise = negated(condition, document_, place_.at("if"), negation_);
    const auto with = [&](const SchemaJson& first, const char* keyword) -> SchemaJson {
      if (!schema_.contains(keyword)) return first;
      return {{"allOf", SchemaJson::array({first, schema_[keyword]})}};
    };
    add({{"anyOf", SchemaJson::array({with(condition, "then"), with(otherwise, "else")})}});
  }

  const SchemaJson& schema_;
  const SchemaDocument& document_;
  const SchemaPlace& place_;
  NegationOptions negation_;
  SchemaJson result_ = SchemaJson::object();
  SchemaJson more_;  // schemas to add to allOf; null: none
};

}  // namespace

SchemaJson normalized(const SchemaJson& schema, const SchemaDocument& document, const SchemaPlace& place,
                      Conditions conditions) {
  document.charge(1, place);
  if (schema.is_boolean()) return schema;
  if (!schema.is_object())
    place.fail("a schema, which is an object, true or false", SchemaDocument::shown(schema), "correct it");
  return Normalizer(schema, document, place).read(conditions);
}

bool has_conditions(const SchemaJson& schema) {
  const auto has = [&](const char* keyword) { return schema.contains(keyword); };
  return has("not") || (has("if") && (has("then") || has("else"))) || has("discriminator") ||
         std::ranges::any_of(kDependencies, has);
}

SchemaJson closed_alone(SchemaJson schema) {
  if (!schema.is_object()) return schema;
  const auto move = [&](const char* from, const char* to) {
    if (!schema.contains(from)) return;
    if (!schema.contains(to)) schema[to] = schema[from];
    schema.erase(from);
  };
  move("unevaluatedProperties", "additionalProperties");
  move("unevaluatedItems", "items");
  return schema;
}

SchemaJson closed_if_plain(SchemaJson normal, const SchemaJson& given) {
  if (!normal.is_object()) return normal;
  const bool is_plain = !has_conditions(given) &&
                        std::ranges::none_of(std::array{"$ref", "allOf", "anyOf", "oneOf"},
                                             [&](const char* keyword) { return normal.contains(keyword); });
  if (is_plain) return closed_alone(std::move(normal));
  normal.erase("unevaluatedProperties");
  normal.erase("unevaluatedItems");
  return normal;
}

}  // namespace tp::constraint
