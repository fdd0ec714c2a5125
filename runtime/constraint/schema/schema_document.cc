#include "runtime/constraint/schema/schema_document.h"

#include "model/files/json_fault.h"
#include "model/files/split_text.h"
#include "model/tokenizer/text/utf8.h"
#include "runtime/constraint/schema/json_pointer.h"

#include <algorithm>
#include <cstdint>

namespace tp::constraint {
namespace {

constexpr int kMaxDocumentDepth = 64;

constexpr const char* kAssertions =
    "$ref allOf anyOf oneOf const enum type minLength maxLength pattern format minimum maximum "
    "exclusiveMinimum exclusiveMaximum multipleOf items prefixItems minItems maxItems uniqueItems "
    "contains minContains maxContains unevaluatedItems properties patternProperties propertyNames "
    "required additionalProperties unevaluatedProperties minProperties maxProperties";

// The parser compares every member's name with all earlier names of the object.
class ParseLimits {
 public:
  bool operator()(int depth, SchemaJson::parse_event_t event, SchemaJson&) {
    require<RequestError>(depth <= kMaxDocumentDepth,
                          "the JSON Schema is nested too deeply (expected at most {} levels); move parts of "
                          "it to `$defs`",
                          kMaxDocumentDepth);
    members_.resize(kMaxDocumentDepth + 2);
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

  std::vector<std::size_t> members_;  // [depth]: members so far of open objects
  std::size_t comparisons_ = 0;
};

// The first schema for which `is_it` holds. Counts the parts that it visits in `visited`.
template <class IsIt>
const SchemaJson* find_schema(const SchemaJson& json, std::size_t& visited, const IsIt& is_it) {
  ++visited;
  if (json.is_object() && is_it(json)) return &json;
  if (!json.is_structured()) return nullptr;
  for (const SchemaJson& part : json) {
    if (const SchemaJson* found = find_schema(part, visited, is_it)) return found;
  }
  return nullptr;
}

bool has_text(const SchemaJson& schema, const char* keyword, std::string_view text) {
  const auto found = schema.find(keyword);
  return found != schema.end() && found->is_string() && found->get_ref<const std::string&>() == text;
}

// Finds an anchor by the keywords of all drafts.
const SchemaJson* find_anchor(const SchemaJson& json, std::size_t& visited, const std::string& name) {
  return find_schema(json, visited, [&](const SchemaJson& schema) {
    return has_text(schema, "$anchor", name) || has_text(schema, "$dynamicAnchor", name) ||
           has_text(schema, "$id", "#" + name) || has_text(schema, "id", "#" + name);
  });
}

// Finds a schema with this `$id`, which may be relative to the `$id` of an enclosing schema.
const SchemaJson* find_resource(const SchemaJson& json, std::size_t& visited, const std::string& uri) {
  return find_schema(json, visited, [&](const SchemaJson& schema) {
    for (const char* keyword : {"$id", "id"}) {
      const auto id = schema.find(keyword);
      if (id == schema.end() || !id->is_string()) continue;
      std::string its = id->get<std::string>();
      its.erase(std::min(its.find('#'), its.size()));
      if (!its.empty() && (its == uri || its.ends_with("/" + uri) || uri.ends_with("/" + its))) return true;
    }
    return false;
  });
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

SchemaDocument::SchemaDocument(std::string_view text, LanguageBudget& budget) : budget_(budget) {
  constexpr std::size_t kMaxBytes = std::size_t{512} << 10;
  require<RequestError>(text.size() <= kMaxBytes,
                        "the JSON Schema has {} bytes (expected at most {}); shorten it", text.size(),
                        kMaxBytes);
  const std::size_t valid = utf8::valid_length(text);
  require<RequestError>(valid == text.size(),
                        "the JSON Schema is not UTF-8 (expected text, found byte 0x{:02X} at offset {}); "
                        "correct it",
                        valid < text.size() ? static_cast<std::uint8_t>(text[valid]) : 0, valid);
  try {
    root_ = SchemaJson::parse(text, ParseLimits());
  } catch (const SchemaJson::exception& error) {
    throw_error<RequestError>("the JSON Schema is not JSON: {}; correct it", json_fault(error));
  }
}

const SchemaJson& SchemaDocument::resolve(const std::string& reference, const SchemaPlace& place) const {
  const auto [target, is_new] = targets_.try_emplace(reference);
  if (is_new) target->second = find(reference, place);
  if (target->second == nullptr)
    place.at("$ref").fail("a reference to a part of the same document", shown(reference),
                          "copy the schema to `$defs`, and write \"#/$defs/NAME\"");
  return *target->second;
}

const SchemaJson* SchemaDocument::find(const std::string& reference, const SchemaPlace& place) const {
  constexpr std::size_t kVisitedPerPart = 16;
  const std::size_t hash = std::min(reference.find('#'), reference.size());
  const std::string uri = reference.substr(0, hash);
  const std::string fragment = hash < reference.size() ? reference.substr(hash + 1) : "";
  std::size_t visited = 0;
  const SchemaJson* found = uri.empty() ? &root_ : find_resource(root_, visited, uri);
  if (found != nullptr && !fragment.empty() && fragment.front() != '/') {
    found = find_anchor(*found, visited, fragment);
  } else if (found != nullptr) {
    found = find_pointer(*found, fragment);
  }
  charge(visited / kVisitedPerPart, place);
  return found;
}

void SchemaDocument::charge(std::size_t parts, const SchemaPlace& place) const {
  constexpr std::size_t kMaxParts = 300000;
  work_ += parts;
  if (work_ > kMaxParts)
    place.fail(fmt::format("at most {} parts when references and combinations are written out", kMaxParts),
               "more", "combine fewer schemas");
  budget_.charge(parts);
}

std::string SchemaDocument::shown(const SchemaJson& json) {
  constexpr std::size_t kMax = 80;
  std::string text = json.dump(-1, ' ', true, SchemaJson::error_handler_t::replace);
  if (text.size() > kMax) text = text.substr(0, kMax) + "...";
  return "`" + text + "`";
}

bool is_annotation(std::string_view keyword) {
  static const std::vector<std::string_view> assertions = split_text(kAssertions);
  return std::ranges::find(assertions, keyword) == assertions.end();
}

}  // namespace tp::constraint
