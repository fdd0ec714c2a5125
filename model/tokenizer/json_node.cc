#include "model/tokenizer/json_node.h"

#include "model/tokenizer/utf8.h"
#include "model/weights/checkpoint/strict_json.h"
#include "tp/internal/require.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

#include <nlohmann/json.hpp>

namespace tp {
namespace {

// Ten times the largest tokenizer.json known; more is a mistake, say weights under the wrong name.
constexpr std::uintmax_t max_file_size = 512u << 20;

std::string read_file(const std::filesystem::path& file) {
  std::error_code error;
  const std::uintmax_t size = std::filesystem::file_size(file, error);
  require<CheckpointError>(!error,
                           "{}: cannot read the file: expected a JSON file, found: {}; check the path",
                           file.string(), error.message());
  require<CheckpointError>(
      size <= max_file_size,
      "{}: cannot read the file: found {} bytes, expected at most {}; this is no tokenizer", file.string(),
      size, max_file_size);
  std::ifstream stream(file, std::ios::binary);
  std::string text(size, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(size));
  require<CheckpointError>(stream.good() || size == 0,
                           "{}: cannot read the file: expected {} bytes, found: {}; check its permissions",
                           file.string(), size, std::strerror(errno));
  return text;
}

// Names a value in an error. Never prints what a value contains: it may be huge or nested without end.
std::string description_of(const nlohmann::json& value) {
  constexpr std::size_t longest_quote = 60;
  if (value.is_string() && value.get_ref<const std::string&>().size() <= longest_quote)
    return fmt::format("the string '{}'", value.get_ref<const std::string&>());
  if (value.is_number() || value.is_boolean()) return value.dump();
  return fmt::format("a value of type {}", value.type_name());
}

}  // namespace

nlohmann::json read_json_file(const std::filesystem::path& file) {
  const std::string text = read_file(file);
  try {
    return parse_strict_json(text);
  } catch (const JsonError& error) {
    throw_error<CheckpointError>("{}: cannot read the file: expected JSON, found: {}; {}", file.string(),
                                 error.what(), JsonNode::damaged_advice);
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

std::int64_t JsonNode::integer_below(std::int64_t limit) const {
  const std::string expected = fmt::format("an integer from 0 to {}", limit - 1);
  if (!value().is_number_integer()) fail_type(expected);
  // Numbers beyond the range of int64 come out negative.
  const auto number = value().get<std::int64_t>();
  if (number < 0 || number >= limit) fail_type(expected);
  return number;
}

const std::string& JsonNode::character() const {
  const std::string& text = string();
  if (text.empty() || utf8::first_character(text).length != text.size())
    fail_type("a string of one character");
  return text;
}

bool JsonNode::boolean_or(std::string_view key, bool fallback) const {
  const std::optional<JsonNode> member = find(key);
  return member ? member->boolean() : fallback;
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
