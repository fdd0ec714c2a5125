#include "runtime/constraint/schema/schema_scalars.h"

#include "model/files/split_text.h"
#include "runtime/constraint/schema/json_formats.h"
#include "runtime/constraint/schema/json_multiples.h"
#include "runtime/constraint/schema/json_numbers.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

namespace tp::constraint {
namespace {

constexpr std::array<std::string_view, 7> kTypes = {"object",  "array",   "string", "number",
                                                    "integer", "boolean", "null"};

constexpr std::pair<std::string_view, std::string_view> kKeywords[] = {
    {"string", "minLength maxLength pattern"},
    {"number", "minimum maximum exclusiveMinimum exclusiveMaximum multipleOf"},
    {"array", "items prefixItems minItems maxItems uniqueItems contains unevaluatedItems"},
    {"object",
     "properties patternProperties propertyNames required additionalProperties unevaluatedProperties "
     "minProperties maxProperties"}};

std::map<std::string_view, std::string_view> types_of_keywords() {
  std::map<std::string_view, std::string_view> types;
  for (const auto& [type, keywords] : kKeywords)
    for (const std::string_view keyword : split_text(keywords)) types.emplace(keyword, type);
  return types;
}

void add_once(std::vector<std::string>& list, std::string_view value) {
  if (std::ranges::find(list, value) == list.end()) list.emplace_back(value);
}

std::optional<Bound> bound_of(const SchemaJson& schema, const std::string& keyword, bool inclusive,
                              const SchemaPlace& place) {
  const auto value = schema.find(keyword);
  if (value == schema.end()) return std::nullopt;
  const std::optional<Decimal> decimal =
      value->is_number() ? Decimal::of(value->dump()) : std::optional<Decimal>();
  if (!decimal)
    place.at(keyword).fail(
        fmt::format("a number of at most {} digits on either side of the point", kMaxDigits),
        SchemaDocument::shown(*value), "correct it");
  return Bound{*decimal, inclusive};
}

Decimal step_of(const SchemaJson& value, const SchemaPlace& place) {
  const std::optional<Decimal> step =
      value.is_number() ? Decimal::of(value.dump()) : std::optional<Decimal>();
  if (!step || step->negative || step->is_zero())
    place.at("multipleOf").fail("a number greater than 0", SchemaDocument::shown(value), "correct it");
  return *step;
}

// The narrower of two bounds. `sign`: 1 for lower bounds.
std::optional<Bound> narrower(const std::optional<Bound>& a, const std::optional<Bound>& b, int sign) {
  if (!a || !b) return a ? a : b;
  const int order = a->value.compare(b->value) * sign;
  if (order == 0) return a->inclusive ? b : a;
  return order > 0 ? a : b;
}

}  // namespace

std::vector<std::string> types_of(const SchemaJson& schema, const SchemaPlace& place) {
  std::vector<std::string> types;
  if (const auto given = schema.find("type"); given != schema.end()) {
    for (const SchemaJson& type : given->is_array() ? *given : SchemaJson::array({*given})) {
      if (!type.is_string() || std::ranges::find(kTypes, type.get<std::string>()) == kTypes.end())
        place.at("type").fail("object, array, string, number, integer, boolean or null",
                              SchemaDocument::shown(type), "correct it");
      add_once(types, type.get<std::string>());
    }
  } else {
    static const std::map<std::string_view, std::string_view> types_by_keyword = types_of_keywords();
    for (const auto& [keyword, value] : schema.items()) {
      const auto type = types_by_keyword.find(keyword);
      if (type != types_by_keyword.end()) add_once(types, type->second);
    }
    if (schema.contains("format") && format_pattern(schema["format"])) add_once(types, "string");
    if (types.empty()) types.assign(kTypes.begin(), kTypes.end());
  }
  if (std::ranges::find(types, "number") != types.end()) std::erase(types, "integer");
  return types;
}

bool has_type(const SchemaJson& value, const std::string& type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "boolean") return value.is_boolean();
  if (type == "null") return value.is_null();
  if (type == "number") return value.is_number();
  return value.is_number_integer() ||
         (value.is_number() && std::trunc(value.get<double>()) == value.get<double>());
}

SchemaJson listed_types(const SchemaJson& schema) {
  const SchemaJson& given = schema.at("type");
  SchemaJson types = given.is_array() ? given : SchemaJson::array({given});
  if (schema.value("nullable", SchemaJson()) == true) types.push_back("null");
  return types;
}

std::optional<SchemaJson> listed_values(const SchemaJson& schema) {
  if (!schema.is_object()) return std::nullopt;
  if (schema.contains("const")) return SchemaJson::array({schema["const"]});
  if (schema.contains("enum") && schema["enum"].is_array()) return schema["enum"];
  if (schema.contains("type") && listed_types(schema) == SchemaJson::array({"boolean"}))
    return SchemaJson::array({true, false});
  return std::nullopt;
}

std::uint32_t count_of(const SchemaJson& schema, const std::string& keyword, std::uint32_t missing,
                       const SchemaPlace& place) {
  const auto value = schema.find(keyword);
  if (value == schema.end()) return missing;
  const bool is_whole = value->is_number() && value->get<double>() >= 0 &&
                        value->get<double>() <= kMaxRepetitions &&
                        std::trunc(value->get<double>()) == value->get<double>();
  if (!is_whole)
    place.at(keyword).fail(fmt::format("a whole number from 0 to {}", kMaxRepetitions),
                           SchemaDocument::shown(*value), "correct it");
  return static_cast<std::uint32_t>(value->get<double>());
}

ExprId number_expr(JsonGrammar& json, const SchemaJson& schema, const SchemaPlace& place, bool integer) {
  const std::optional<IntegerFormat> format = integer_format(schema.value("format", SchemaJson()));
  std::optional<Bound> least = narrower(bound_of(schema, "minimum", true, place),
                                        bound_of(schema, "exclusiveMinimum", false, place), 1);
  std::optional<Bound> greatest = narrower(bound_of(schema, "maximum", true, place),
                                           bound_of(schema, "exclusiveMaximum", false, place), -1);
  if (format) {
    least = narrower(least, Bound{*Decimal::of(format->least)}, 1);
    greatest = narrower(greatest, Bound{*Decimal::of(format->greatest)}, -1);
  }
  if (const auto step = schema.find("multipleOf"); step != schema.end()) {
    const auto found = multiples(json.grammar(), step_of(*step, place), least, greatest, integer);
    if (found) return *found;
    place.at("multipleOf")
        .fail_unsupported("a step with so many digits between these bounds",
                          "narrow `minimum` and `maximum`, or leave it out and check the answer");
  }
  if (!least && !greatest) return integer ? json.integer() : json.number();
  return integer ? integer_between(json.grammar(), least, greatest)
                 : number_between(json.grammar(), least, greatest);
}

}  // namespace tp::constraint
