#include "runtime/chat/value_types.h"

#include "model/files/blanks.h"
#include "model/files/json_text.h"
#include "runtime/chat/json_scanner.h"
#include "runtime/constraint/schema/json_pointer.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

namespace tp {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kMaxSchemaDepth = 16;

ValueTypes named_type(std::string_view name) {
  static constexpr std::array<std::pair<std::string_view, ValueTypes>, 7> kNames = {{{"string", kText},
                                                                                     {"null", kNull},
                                                                                     {"boolean", kBoolean},
                                                                                     {"integer", kNumber},
                                                                                     {"number", kNumber},
                                                                                     {"object", kObject},
                                                                                     {"array", kList}}};
  const auto* const found = std::ranges::find(kNames, name, &std::pair<std::string_view, ValueTypes>::first);
  return found == kNames.end() ? kAnyType : found->second;
}

ValueTypes type_of(const Json& value) {
  if (value.is_string()) return kText;
  if (value.is_boolean()) return kBoolean;
  if (value.is_number()) return kNumber;
  if (value.is_object()) return kObject;
  return value.is_array() ? kList : kNull;
}

// The union of the types that the elements of a list allow.
template <typename Types>
ValueTypes any_of(const Json& list, const Types& types) {
  ValueTypes sum = 0;
  if (!list.is_array()) return kAnyType;
  for (const Json& element : list) sum |= types(element);
  return sum;
}

// The types to which the schema's keywords apply, if `type` is missing.
ValueTypes types_of_keywords(const Json& schema) {
  static constexpr std::array<std::pair<const char*, ValueTypes>, 11> kKeywords = {
      {{"properties", kObject},
       {"additionalProperties", kObject},
       {"required", kObject},
       {"items", kList},
       {"prefixItems", kList},
       {"pattern", kText},
       {"minLength", kText},
       {"maxLength", kText},
       {"minimum", kNumber},
       {"maximum", kNumber},
       {"multipleOf", kNumber}}};
  ValueTypes types = 0;
  for (const auto& [keyword, type] : kKeywords) types |= schema.contains(keyword) ? type : 0;
  return types == 0 ? kAnyType : types;
}

class SchemaTypes {
 public:
  SchemaTypes(const Json& root, SchemaWork& work) : root_(root), work_(work) {}

  ValueTypes of(const Json& schema, int depth = 0) const {
    if (!work_.charge(1 + schema.size()) || !schema.is_object() || depth > kMaxSchemaDepth) return kAnyType;
    const auto inner = [&](const Json& part) { return of(part, depth + 1); };
    ValueTypes types = kAnyType;
    bool is_limited = false;
    const auto allow = [&](const char* keyword, const auto& allowed_by) {
      const auto found = schema.find(keyword);
      if (found == schema.end()) return;
      if (work_.charge(found->size())) types &= allowed_by(*found);
      is_limited = true;
    };
    allow("type", types_of_names);
    allow("enum", [](const Json& values) { return any_of(values, type_of); });
    allow("const", type_of);
    allow("anyOf", [&](const Json& choices) { return any_of(choices, inner); });
    allow("oneOf", [&](const Json& choices) { return any_of(choices, inner); });
    allow("allOf", [&](const Json& parts) {
      ValueTypes all = kAnyType;
      for (const Json& part : parts) all &= inner(part);
      return all;
    });
    allow("$ref", [&](const Json& reference) {
      const Json* target = target_of(reference);
      return target == nullptr ? kAnyType : inner(*target);
    });
    if (!is_limited) types = types_of_keywords(schema);
    if (schema.value("nullable", Json()) == Json(true)) types |= kNull;
    return types == 0 ? kAnyType : types;
  }

 private:
  static ValueTypes types_of_names(const Json& type) {
    const auto named = [](const Json& name) {
      return name.is_string() ? named_type(name.get_ref<const std::string&>()) : kAnyType;
    };
    return type.is_array() ? any_of(type, named) : named(type);
  }

  // The part of the schema at the pointer "#/a/pointer"; null for other references.
  const Json* target_of(const Json& reference) const {
    if (!reference.is_string()) return nullptr;
    const std::string_view text = reference.get_ref<const std::string&>();
    return text == "#" || text.starts_with("#/") ? find_pointer(root_, text.substr(1)) : nullptr;
  }

  const Json& root_;
  SchemaWork& work_;
};

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& letter : lower)
    letter = letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter + 32) : letter;
  return lower;
}

// Accepts Python's spelling, too.
std::optional<std::string> word_in(std::string_view text, ValueTypes allowed) {
  if (text.size() > 5) return std::nullopt;
  const std::string word = lower_case(text);
  if ((allowed & kNull) != 0 && (word == "null" || word == "none")) return "null";
  if ((allowed & kBoolean) != 0 && (word == "true" || word == "false")) return word;
  return std::nullopt;
}

std::string text_as_json(std::string_view text) { return json_text(Json(text)); }

// Numbers keep all their digits. The first byte is checked because Json::accept skips a byte order mark,
// which is not JSON.
std::optional<std::string> json_in(std::string_view text) {
  if (text.starts_with('{') || text.starts_with('[')) return repaired_json(text);
  const bool begins_value = text.find_first_of("\"-0123456789tfn") == 0;
  return begins_value && Json::accept(text) ? std::optional<std::string>(text) : std::nullopt;
}

ValueTypes type_of_json(std::string_view json) {
  switch (json.front()) {
    case '{':
      return kObject;
    case '[':
      return kList;
    case '"':
      return kText;
    case 't':
    case 'f':
      return kBoolean;
    default:
      return json.front() == 'n' ? kNull : kNumber;
  }
}

}  // namespace

ValueTypes types_in(const Json& schema, const Json& root, SchemaWork& work) {
  return SchemaTypes(root, work).of(schema);
}

std::string value_as_json(std::string_view written, ValueTypes allowed) {
  if (allowed == kText) return text_as_json(written);
  const std::string_view trimmed = without_blanks(written);
  if (auto word = word_in(trimmed, allowed)) return *std::move(word);
  auto json = json_in(trimmed);
  if (!json) return text_as_json(written);
  const ValueTypes type = type_of_json(*json);
  // A text keeps its quotes, unless the schema allows all types.
  const bool is_meant = (type & allowed) != 0 && (type != kText || allowed == kAnyType);
  return is_meant || (allowed & kText) == 0 ? *std::move(json) : text_as_json(written);
}

}  // namespace tp
