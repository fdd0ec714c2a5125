#include "runtime/constraint/schema/schema_negation.h"

#include "runtime/constraint/schema/schema_dialect.h"
#include "runtime/constraint/schema/schema_scalars.h"
#include "runtime/constraint/schema/schema_strings.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

namespace tp::constraint {
namespace {

constexpr std::size_t kMaxNegationDepth = 20;

// The bound that holds for exactly the values beyond another bound. `difference`: nonzero if the bounds limit
// a count.
struct Opposite {
  const char* type;
  const char* keyword;
  int difference;
};

const std::map<std::string, Opposite>& opposites() {
  static const std::map<std::string, Opposite> table = {{"minimum", {"number", "exclusiveMaximum", 0}},
                                                        {"exclusiveMinimum", {"number", "maximum", 0}},
                                                        {"maximum", {"number", "exclusiveMinimum", 0}},
                                                        {"exclusiveMaximum", {"number", "minimum", 0}},
                                                        {"minLength", {"string", "maxLength", -1}},
                                                        {"maxLength", {"string", "minLength", 1}},
                                                        {"minItems", {"array", "maxItems", -1}},
                                                        {"maxItems", {"array", "minItems", 1}},
                                                        {"minProperties", {"object", "maxProperties", -1}},
                                                        {"maxProperties", {"object", "minProperties", 1}}};
  return table;
}

SchemaJson beyond(const Opposite& opposite, const SchemaJson& bound) {
  if (!bound.is_number()) return false;
  if (opposite.difference == 0) return {{"type", opposite.type}, {opposite.keyword, bound}};
  const double counted = bound.get<double>() + opposite.difference;
  if (counted < 0) return false;
  return {{"type", opposite.type}, {opposite.keyword, counted}};
}

SchemaJson of_other_types(const std::vector<std::string>& types) {
  SchemaJson others = SchemaJson::array();
  for (const char* type : {"object", "array", "string", "number", "boolean", "null"}) {
    const bool is_listed = std::ranges::any_of(types, [&](const std::string& one) {
      return one == type || (one == "integer" && std::string(type) == "number");
    });
    if (!is_listed) others.push_back(type);
  }
  return others.empty() ? SchemaJson(false) : SchemaJson{{"type", others}};
}

// Adds the ranges between the listed numbers.
void add_other_numbers(SchemaJson numbers, std::vector<SchemaJson>& choices) {
  std::sort(numbers.begin(), numbers.end());
  for (std::size_t i = 0; i <= numbers.size(); ++i) {
    SchemaJson range = {{"type", "number"}};
    if (i > 0) range["exclusiveMinimum"] = numbers[i - 1];
    if (i < numbers.size()) range["exclusiveMaximum"] = numbers[i];
    choices.push_back(range);
  }
}

// If arrays or objects that are not empty are listed, the result contains no other arrays or objects.
std::vector<SchemaJson> other_values(const SchemaJson& values) {
  std::vector<std::string> types;
  std::vector<std::string> texts;
  SchemaJson numbers = SchemaJson::array();
  bool has_structure = false;
  for (const SchemaJson& value : values) {
    for (const char* type : {"object", "array", "string", "number", "boolean", "null"}) {
      if (has_type(value, type)) types.emplace_back(type);
    }
    if (value.is_string()) texts.push_back(value.get<std::string>());
    if (value.is_number()) numbers.push_back(value);
    has_structure |= value.is_structured() && !value.empty();
  }
  std::vector<SchemaJson> choices = {of_other_types(types)};
  const auto has = [&](const SchemaJson& value) {
    return std::find(values.begin(), values.end(), value) != values.end();
  };
  if (!texts.empty()) choices.push_back({{"type", "string"}, {"pattern", other_than(texts)}});
  if (!numbers.empty()) add_other_numbers(numbers, choices);
  if (has(true) != has(false)) choices.push_back({{"const", has(false)}});
  if (has(SchemaJson::array()) && !has_structure) choices.push_back({{"type", "array"}, {"minItems", 1}});
  if (has(SchemaJson::object()) && !has_structure)
    choices.push_back({{"type", "object"}, {"minProperties", 1}});
  return choices;
}

class Negation {
 public:
  Negation(const SchemaDocument& document, const SchemaPlace& place, NegationOptions options)
      : document_(document), place_(place), options_(options) {
    if (options_.depth > kMaxNegationDepth)
      place_.fail(fmt::format("at most {} levels under `not` or `if`", kMaxNegationDepth), "more",
                  "simplify it");
  }

  SchemaJson of(const SchemaJson& given) {
    const SchemaJson schema = normalized(given, document_, place_, Conditions::left_out);
    for (const auto& [keyword, value] : schema.items()) add(keyword, value, schema);
    if (given.contains("not")) add_choice(given["not"]);
    for (const char* condition : {"if", "dependencies", "dependentRequired", "dependentSchemas"}) {
      if (given.contains(condition)) add_unsupported(condition);
    }
    if (choices_.empty() && !unsupported_.empty())
      place_.at(unsupported_)
          .fail_unsupported("`" + unsupported_ + "` under `not` or `if`",
                            "say what is allowed, by `enum` or `anyOf`");
    if (choices_.empty()) return false;
    return choices_.size() == 1 ? choices_.front() : SchemaJson{{"anyOf", choices_}};
  }

 private:
  void add_choice(SchemaJson schema) {
    if (schema != false) choices_.push_back(std::move(schema));
  }

  void add_unsupported(const std::string& keyword) {
    if (unsupported_.empty()) unsupported_ = keyword;
  }

  SchemaJson inner(const SchemaJson& schema, const SchemaPlace& place) const {
    return negated(schema, document_, place, {options_.is_open, options_.depth + 1});
  }

  SchemaJson all_negated(const SchemaJson& schemas, const SchemaPlace& place) const {
    SchemaJson all = SchemaJson::array();
    for (std::size_t i = 0; i < schemas.size(); ++i) all.push_back(inner(schemas[i], place.at(i)));
    return all;
  }

  void add(const std::string& keyword, const SchemaJson& value, const SchemaJson& schema) {
    const SchemaPlace where = place_.at(keyword);
    const auto opposite = opposites().find(keyword);
    if (opposite != opposites().end()) return add_choice(beyond(opposite->second, value));
    if (keyword == "type") return add_choice(of_other_types(types_of(schema, place_)));
    if (keyword == "const" || keyword == "enum") {
      for (SchemaJson& choice : other_values(keyword == "enum" ? value : SchemaJson::array({value})))
        add_choice(std::move(choice));
    } else if (keyword == "pattern") {
      read_pattern(value, place_);
      add_choice({{"type", "string"}, {"pattern", no_pattern(value.get<std::string>())}});
    } else if (keyword == "required" && value.is_array()) {
      for (const SchemaJson& name : value) {
        if (name.is_string()) add_choice(without_property(name.get<std::string>(), options_));
      }
    } else if (keyword == "properties" && value.is_object()) {
      for (const auto& [name, property] : value.items()) add_property(name, inner(property, where.at(name)));
    } else if ((keyword == "anyOf" || keyword == "oneOf") && value.is_array()) {
      add_choice({{"allOf", all_negated(value, where)}});
    } else if (keyword == "allOf" && value.is_array()) {
      for (SchemaJson& choice : all_negated(value, where)) add_choice(std::move(choice));
    } else if (keyword == "$ref" && value.is_string()) {
      add_choice(inner(document_.resolve(value.get<std::string>(), place_), where));
    } else if (keyword == "items" && !schema.contains("prefixItems")) {
      add_choice({{"type", "array"}, {"contains", inner(value, where)}});
    } else if (keyword == "contains" && schema["minContains"] == 1 && !schema.contains("maxContains")) {
      add_choice({{"type", "array"}, {"items", inner(value, where)}});
    } else {
      add_unsupported(keyword);
    }
  }

  void add_property(const std::string& name, const SchemaJson& property) {
    if (property == false) return;
    SchemaJson object = {
        {"type", "object"}, {"properties", {{name, property}}}, {"required", SchemaJson::array({name})}};
    if (options_.is_open) object["additionalProperties"] = true;
    add_choice(std::move(object));
  }

  const SchemaDocument& document_;
  const SchemaPlace& place_;
  NegationOptions options_;
  std::vector<SchemaJson> choices_;
  std::string unsupported_;
};

}  // namespace

SchemaJson without_property(const std::string& name, const NegationOptions& options) {
  SchemaJson object = {{"type", "object"}, {"properties", {{name, false}}}};
  if (options.is_open) object["additionalProperties"] = true;
  return object;
}

SchemaJson negated(const SchemaJson& schema, const SchemaDocument& document, const SchemaPlace& place,
                   const NegationOptions& options) {
  if (schema.is_boolean()) return !schema.get<bool>();
  return Negation(document, place, options).of(schema);
}

}  // namespace tp::constraint
