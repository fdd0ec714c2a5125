#include "runtime/constraint/schema_document.h"

#include "model/tokenizer/utf8.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>

namespace tp::constraint {
namespace {

constexpr int kMaxDepth = 64;

constexpr std::array<std::string_view, 12> kAnnotations = {
    "$schema", "$id",      "$comment", "$defs",      "definitions", "title",
    "default", "examples", "readOnly", "deprecated", "writeOnly",   "description"};

constexpr std::array<std::string_view, 26> kKeywords = {"$ref",
                                                        "allOf",
                                                        "anyOf",
                                                        "oneOf",
                                                        "const",
                                                        "enum",
                                                        "type",
                                                        "minLength",
                                                        "maxLength",
                                                        "pattern",
                                                        "format",
                                                        "minimum",
                                                        "maximum",
                                                        "items",
                                                        "minItems",
                                                        "maxItems",
                                                        "uniqueItems",
                                                        "exclusiveMinimum",
                                                        "exclusiveMaximum",
                                                        "prefixItems",
                                                        "properties",
                                                        "required",
                                                        "additionalProperties",
                                                        "$anchor",
                                                        "minProperties",
                                                        "maxProperties"};

// Keywords with a hint what to write in their place.
const std::map<std::string_view, std::string_view>& hints() {
  static const std::map<std::string_view, std::string_view> table = {
      {"nullable", "write \"type\": [..., \"null\"]"},
      {"multipleOf", "use `enum`, or a `pattern` of a string"},
      {"not", "say what is allowed, by `enum` or `anyOf`"},
      {"if", "use `anyOf` with both cases"},
      {"patternProperties", "list the `properties`, or use `additionalProperties`"},
      {"contains", "use `items` or `prefixItems`"},
      {"dependentRequired", "use `anyOf` with both cases"},
      {"propertyNames", "list the `properties`"},
      {"unevaluatedProperties", "use `additionalProperties`"},
  };
  return table;
}

// The parser compares every member's name with those before it.
class ParseLimits {
 public:
  bool operator()(int depth, SchemaJson::parse_event_t event, SchemaJson&) {
    require<RequestError>(depth <= kMaxDepth,
                          "the JSON Schema is nested too deeply (expected at most {} levels); move parts of "
                          "it to `$defs`",
                          kMaxDepth);
    members_.resize(kMaxDepth + 2);
    if (event == SchemaJson::parse_event_t::object_start) members_[static_cast<std::size_t>(depth) + 1] = 0;
    if (event == SchemaJson::parse_event_t::key) comparisons_ += members_[static_cast<std::size_t>(depth)]++;
    require<RequestError>(
        comparisons_ <= kMaxComparisons,
        "the JSON Schema has objects with too many members (expected at most {}); use fewer", kMaxMembers);
    return true;
  }

 private:
  static constexpr std::size_t kMaxMembers = 3000;
  static constexpr std::size_t kMaxComparisons = kMaxMembers * kMaxMembers / 2;

  std::vector<std::size_t> members_;  // so far, of the objects that are open, by depth
  std::size_t comparisons_ = 0;
};

std::string unescaped(std::string_view part) {
  std::string text;
  for (std::size_t i = 0; i < part.size(); ++i) {
    if (part[i] == '~' && i + 1 < part.size() && (part[i + 1] == '0' || part[i + 1] == '1'))
      text.push_back(part[++i] == '0' ? '~' : '/');
    else
      text.push_back(part[i]);
  }
  return text;
}

const SchemaJson* child_of(const SchemaJson& json, const std::string& key) {
  if (json.is_object()) {
    const auto found = json.find(key);
    return found == json.end() ? nullptr : &*found;
  }
  if (!json.is_array() || key.empty() || key.size() > 6 ||
      key.find_first_not_of("0123456789") != std::string::npos)
    return nullptr;
  const std::size_t index = std::stoul(key);
  return index < json.size() ? &json[index] : nullptr;
}

const SchemaJson* find_anchor(const SchemaJson& json, const std::string& name) {
  if (json.is_object() && json.contains("$anchor") && json["$anchor"] == name) return &json;
  if (!json.is_structured()) return nullptr;
  for (const SchemaJson& part : json) {
    if (const SchemaJson* found = find_anchor(part, name)) return found;
  }
  return nullptr;
}

}  // namespace

SchemaPlace SchemaPlace::at(std::string_view key) const {
  std::string next = pointer + "/";
  for (const char c : key) {
    if (c == '~')
      next += "~0";
    else if (c == '/')
      next += "~1";
    else
      next += c;
  }
  return {next};
}

void SchemaPlace::fail(std::string_view expected, std::string_view found, std::string_view advice) const {
  throw_error<RequestError>("the JSON Schema at `{}`: expected {}, found {}; {}",
                            pointer.empty() ? "/" : pointer, expected, found, advice);
}

void SchemaPlace::fail_unsupported(std::string_view what, std::string_view advice) const {
  throw_error<RequestError>("the JSON Schema at `{}`: {} is not supported; {}",
                            pointer.empty() ? "/" : pointer, what, advice);
}

SchemaDocument::SchemaDocument(std::string_view text) {
  constexpr std::size_t kMostBytes = std::size_t{512} << 10;
  require<RequestError>(text.size() <= kMostBytes,
                        "the JSON Schema has {} bytes (expected at most {}); shorten it", text.size(),
                        kMostBytes);
  const std::size_t valid = utf8::valid_length(text);
  require<RequestError>(valid == text.size(),
                        "the JSON Schema is not UTF-8 (expected text, found byte 0x{:02X} at offset {}); "
                        "correct it",
                        valid < text.size() ? static_cast<std::uint8_t>(text[valid]) : 0, valid);
  try {
    root_ = SchemaJson::parse(text, ParseLimits());
  } catch (const SchemaJson::exception& error) {
    throw_error<RequestError>("the JSON Schema is not JSON: {}; correct it", error.what());
  }
}

const SchemaJson& SchemaDocument::resolve(const std::string& reference, const SchemaPlace& place) const {
  const SchemaJson* found = reference.starts_with('#') ? &root_ : nullptr;
  if (found != nullptr && reference.size() > 1 && reference[1] != '/') {
    found = find_anchor(root_, reference.substr(1));
  } else {
    for (std::size_t begin = 1; found != nullptr && begin < reference.size();) {
      const std::size_t end = std::min(reference.find('/', begin + 1), reference.size());
      found = child_of(*found, unescaped(std::string_view(reference).substr(begin + 1, end - begin - 1)));
      begin = end;
    }
  }
  if (found == nullptr)
    place.at("$ref").fail("a reference to a part of the same document", shown(reference),
                          "copy the schema to `$defs`, and write \"#/$defs/NAME\"");
  return *found;
}

std::string SchemaDocument::shown(const SchemaJson& json) {
  constexpr std::size_t kMost = 80;
  std::string text = json.dump(-1, ' ', true, SchemaJson::error_handler_t::replace);
  if (text.size() > kMost) text = text.substr(0, kMost) + "...";
  return "`" + text + "`";
}

bool is_annotation(std::string_view keyword) {
  return std::ranges::find(kAnnotations, keyword) != kAnnotations.end();
}

void check_keywords(const SchemaJson& schema, const SchemaPlace& place) {
  if (!schema.is_object())
    place.fail("a schema, which is an object, true or false", SchemaDocument::shown(schema), "correct it");
  for (const auto& [keyword, value] : schema.items()) {
    if (is_annotation(keyword) || std::ranges::find(kKeywords, keyword) != kKeywords.end()) continue;
    const auto hint = hints().find(keyword);
    place.at(keyword).fail_unsupported("`" + keyword + "`",
                                       hint == hints().end() ? "leave it out" : hint->second);
  }
}

}  // namespace tp::constraint
