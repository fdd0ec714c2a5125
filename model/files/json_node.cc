#include "model/files/json_node.h"

#include "model/files/file_kind.h"
#include "model/files/file_notices.h"
#include "model/files/has_file.h"
#include "model/files/printable.h"
#include "model/files/strict_json.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <utility>

#include <nlohmann/json.hpp>

namespace tp {
namespace {

// Ten times the largest known tokenizer.json. A larger file is a mistake, such as weights under the wrong
// name.
constexpr std::uintmax_t kMaxFileSize = 512u << 20;

// No size in a model's files is larger, and products of two sizes do not overflow.
constexpr std::int64_t kMaxCount = std::numeric_limits<std::int32_t>::max();

std::string read_file(const std::filesystem::path& file) {
  std::error_code error;
  const std::uintmax_t size = std::filesystem::file_size(file, error);
  if (error) has_file(file);  // throws for a link without its target
  require<CheckpointError>(
      !error, "{}: cannot read the file: expected a JSON file, found: {}; check the path on every host",
      file.string(), error.message());
  require<CheckpointError>(
      size <= kMaxFileSize,
      "{}: cannot read the file: expected at most {} bytes, found {}; is this the right file?", file.string(),
      kMaxFileSize, size);
  std::ifstream stream(file, std::ios::binary);
  std::string text(size, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(size));
  require<CheckpointError>(stream.good() || size == 0,
                           "{}: cannot read the file: expected {} bytes, found: {}; check its permissions",
                           file.string(), size, std::strerror(errno));
  return text;
}

// Describes a value in an error. Never prints its contents, which may be huge or deeply nested.
std::string description_of(const nlohmann::json& value) {
  constexpr std::size_t kLongestQuote = 60;
  if (value.is_string() && value.get_ref<const std::string&>().size() <= kLongestQuote)
    return fmt::format("the string '{}'", printable(value.get_ref<const std::string&>()));
  if (value.is_number() || value.is_boolean()) return value.dump();
  return fmt::format("a value of type {}", value.type_name());
}

}  // namespace

nlohmann::json read_json_file(const std::filesystem::path& file) {
  return parse_json_file(read_file(file), file);
}

nlohmann::json parse_json_file(const std::string& text, const std::filesystem::path& file) {
  try {
    return parse_python_json(text, [&](const std::string& key) { note_repeated_key(file.string(), key); });
  } catch (const JsonError& error) {
    refuse_other_kinds(text, file.string(), FileKind::json);
    throw_error<CheckpointError>("{}: cannot read the file: expected JSON, found: {}; {}", file.string(),
                                 error.what(), JsonNode::kDamagedAdvice);
  }
}

JsonNode::JsonNode(const nlohmann::json& document, const std::filesystem::path& file)
    : JsonNode(document, file.string(), "") {}

JsonNode::JsonNode(const nlohmann::json& value, const std::string& file, std::string place)
    : value_(value), file_(file), place_(std::move(place)) {}

JsonNode JsonNode::child(const nlohmann::json& value, std::string_view key) const {
  return JsonNode(value, file_, place_.empty() ? std::string(key) : fmt::format("{}.{}", place_, key));
}

std::optional<JsonNode> JsonNode::find(std::string_view key) const {
  if (!value().is_object()) fail_type("an object");
  const auto member = value().find(key);
  if (member == value().end() || member->is_null()) return std::nullopt;
  return child(*member, key);
}

JsonNode JsonNode::at(std::string_view key) const {
  const std::optional<JsonNode> member = find(key);
  if (!member) fail(fmt::format("no '{}' in it", key), fmt::format("a value for '{}'", key));
  return *member;
}

bool JsonNode::has(std::string_view key) const { return find(key).has_value(); }

bool JsonNode::is_null(std::string_view key) const {
  const auto member = value().find(key);
  return member != value().end() && member->is_null();
}

std::string JsonNode::name_of(std::initializer_list<std::string> names) const {
  const auto given = std::find_if(names.begin(), names.end(), [&](const auto& name) { return has(name); });
  return given == names.end() ? *names.begin() : *given;
}

std::vector<JsonNode> JsonNode::elements() const {
  if (!value().is_array()) fail_type("a list");
  std::vector<JsonNode> nodes;
  nodes.reserve(value().size());
  for (std::size_t i = 0; i < value().size(); ++i)
    nodes.push_back(JsonNode(value()[i], file_, fmt::format("{}[{}]", place_, i)));
  return nodes;
}

bool JsonNode::is_string() const { return value().is_string(); }
bool JsonNode::is_array() const { return value().is_array(); }

const std::string& JsonNode::string() const {
  if (!value().is_string()) fail_type("a string");
  return value().get_ref<const std::string&>();
}

bool JsonNode::boolean() const {
  if (!value().is_boolean()) fail_type("true or false");
  return value().get<bool>();
}

double JsonNode::number() const {
  constexpr double kMax = std::numeric_limits<float>::max();
  if (!value().is_number()) fail_type("a number");
  const double number = value().get<double>();
  if (!(std::abs(number) <= kMax)) fail_type("a number that float32 can hold");
  return number;
}

bool JsonNode::is_infinite() const {
  if (value().is_string()) return string() == "Infinity";
  return value().is_number() && value().get<double>() > std::numeric_limits<float>::max();
}

bool JsonNode::is_integer_within(std::int64_t min, std::int64_t max) const {
  if (value().is_number_unsigned() && !std::in_range<std::int64_t>(value().get<std::uint64_t>()))
    return false;
  return value().is_number_integer() && value().get<std::int64_t>() >= min &&
         value().get<std::int64_t>() <= max;
}

std::int64_t JsonNode::integer_below(std::int64_t limit) const {
  if (!is_integer_within(0, limit - 1)) fail_type(fmt::format("an integer from 0 to {}", limit - 1));
  return value().get<std::int64_t>();
}

std::size_t JsonNode::count() const {
  if (!is_integer_within(0, kMaxCount)) fail_type(fmt::format("a whole number from 0 to {}", kMaxCount));
  return value().get<std::size_t>();
}

std::size_t JsonNode::size() const {
  if (!is_integer_within(1, kMaxCount)) fail_type(fmt::format("a whole number from 1 to {}", kMaxCount));
  return value().get<std::size_t>();
}

std::vector<TokenId> JsonNode::token_ids() const {
  constexpr double kMin = std::numeric_limits<TokenId>::min();
  constexpr double kMax = std::numeric_limits<TokenId>::max();
  std::vector<TokenId> ids;
  for (const JsonNode& node : is_array() ? elements() : std::vector<JsonNode>{*this}) {
    if (!node.value().is_number_integer()) node.fail_type("a token id or a list of token ids");
    ids.push_back(static_cast<TokenId>(std::clamp(node.number(), kMin, kMax)));
  }
  return ids;
}

const std::string& JsonNode::character() const {
  const std::string& text = string();
  const auto begins_character = [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; };
  if (std::count_if(text.begin(), text.end(), begins_character) != 1) fail_type("a string of one character");
  return text;
}

bool JsonNode::boolean_or(std::string_view key, bool fallback) const {
  const std::optional<JsonNode> member = find(key);
  return member ? member->boolean() : fallback;
}

double JsonNode::number_or(std::string_view key, double fallback) const {
  const std::optional<JsonNode> member = find(key);
  return member ? member->number() : fallback;
}

std::size_t JsonNode::count_or(std::string_view key, std::size_t fallback) const {
  const std::optional<JsonNode> member = find(key);
  return member ? member->count() : fallback;
}

std::size_t JsonNode::size_or(std::string_view key, std::size_t fallback) const {
  const std::optional<JsonNode> member = find(key);
  return member ? member->size() : fallback;
}

std::string JsonNode::string_or(std::string_view key, const std::string& fallback) const {
  const std::optional<JsonNode> member = find(key);
  return member ? member->string() : fallback;
}

double JsonNode::limit_or(std::string_view key, double fallback, double none) const {
  const std::optional<JsonNode> member = find(key);
  if (!member) return is_null(key) ? none : fallback;
  return member->is_infinite() ? none : member->number();
}

std::size_t JsonNode::size_limit_or(std::string_view key, std::size_t fallback, std::size_t none) const {
  const std::optional<JsonNode> member = find(key);
  if (!member) return is_null(key) ? none : fallback;
  const bool is_large = member->value().is_number() && member->value().get<double>() > kMaxCount;
  return is_large || member->is_infinite() ? none : member->size();
}

const std::string& JsonNode::type() const { return at("type").string(); }

void JsonNode::for_each_member(
    const std::function<void(const std::string&, const nlohmann::json&)>& visit) const {
  if (!value().is_object()) fail_type("an object");
  for (const auto& [key, member] : value().items()) visit(key, member);
}

void JsonNode::fail(std::string_view found, std::string_view expected, std::string_view advice) const {
  throw_error<CheckpointError>("{}: cannot use {}: found {}, expected {}; {}", file_,
                               place_.empty() ? "the file" : place_, found, expected, advice);
}

void JsonNode::fail_type(std::string_view expected) const { fail(description_of(value()), expected); }

void JsonNode::fail_unsupported_type(std::string_view supported) const {
  fail(fmt::format("type '{}', which tp-infer does not support yet", type()), supported,
       "use a model whose tokenizer consists of these parts");
}

}  // namespace tp
