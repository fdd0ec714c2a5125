#include "model/config/json_fields.h"

#include "model/weights/checkpoint/strict_json.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <sstream>

namespace tp {
namespace {

constexpr std::size_t kMaxTextFile = std::size_t{1} << 30;

}  // namespace

nlohmann::json parse_json_object(const std::string& text, const std::string& name) {
  nlohmann::json parsed;
  try {
    parsed = parse_strict_json(text);
  } catch (const JsonError& error) {
    throw_error<CheckpointError>(
        "{}: expected a JSON object, but it cannot be parsed ({}); is the file complete?", name,
        error.what());
  }
  require<CheckpointError>(parsed.is_object(),
                           "{}: expected a JSON object, found {}; is this the right file?", name,
                           parsed.type_name());
  return parsed;
}

std::string read_text_file(const std::filesystem::path& path) {
  std::error_code error;
  require<CheckpointError>(std::filesystem::exists(path, error),
                           "cannot open {}: no such file; check the path, on every host", path.string());
  require<CheckpointError>(std::filesystem::is_regular_file(path, error),
                           "cannot read {}: it is not a regular file", path.string());
  const auto size = std::filesystem::file_size(path, error);
  require<CheckpointError>(!error && size <= kMaxTextFile, "cannot read {}: expected a text file below 1 GiB",
                           path.string());
  std::ifstream stream(path, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  require<CheckpointError>(stream.good() || (stream.eof() && size == 0),
                           "cannot read {}: check its permissions", path.string());
  return std::move(text).str();
}

bool JsonFields::has(const std::string& field) const {
  const auto found = object_.find(field);
  return found != object_.end() && !found->is_null();
}

bool JsonFields::is_null(const std::string& field) const {
  const auto found = object_.find(field);
  return found != object_.end() && found->is_null();
}

std::string JsonFields::name_of(std::initializer_list<std::string> names) const {
  for (const std::string& name : names) {
    if (has(name)) return name;
  }
  return *names.begin();
}

const nlohmann::json& JsonFields::at(const std::string& field) const {
  require<ConfigError>(has(field), "{}: {} is missing; is this the config of a complete checkpoint?", where_,
                       field);
  return object_.at(field);
}

void JsonFields::wrong(const std::string& field, const std::string& expected) const {
  std::string found = object_.at(field).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  if (found.size() > 80) found = found.substr(0, 77) + "...";
  throw_error<ConfigError>("{}: {} must be {}, found {}", where_, field, expected, found);
}

std::size_t JsonFields::size(const std::string& field) const {
  const nlohmann::json& value = at(field);
  if (!value.is_number_integer() || value < 1 || value > (std::int64_t{1} << 40))
    wrong(field, "a whole number >= 1");
  return value.get<std::size_t>();
}

std::size_t JsonFields::size_or(const std::string& field, std::size_t otherwise) const {
  return has(field) ? size(field) : otherwise;
}

std::size_t JsonFields::count_or(const std::string& field, std::size_t otherwise) const {
  if (!has(field)) return otherwise;
  const nlohmann::json& value = at(field);
  if (!value.is_number_integer() || value < 0 || value > (std::int64_t{1} << 40))
    wrong(field, "a whole number >= 0");
  return value.get<std::size_t>();
}

double JsonFields::number(const std::string& field) const {
  const nlohmann::json& value = at(field);
  if (!value.is_number() || !std::isfinite(value.get<double>())) wrong(field, "a number");
  return value.get<double>();
}

double JsonFields::number_or(const std::string& field, double otherwise) const {
  return has(field) ? number(field) : otherwise;
}

bool JsonFields::boolean_or(const std::string& field, bool otherwise) const {
  if (!has(field)) return otherwise;
  if (!at(field).is_boolean()) wrong(field, "true or false");
  return at(field).get<bool>();
}

std::string JsonFields::text(const std::string& field) const {
  if (!at(field).is_string()) wrong(field, "a string");
  return at(field).get<std::string>();
}

std::string JsonFields::text_or(const std::string& field, const std::string& otherwise) const {
  return has(field) ? text(field) : otherwise;
}

std::vector<double> JsonFields::numbers(const std::string& field) const {
  if (!has(field)) return {};
  const nlohmann::json& value = at(field);
  const auto is_number = [](const nlohmann::json& element) { return element.is_number(); };
  if (!value.is_array() || !std::all_of(value.begin(), value.end(), is_number))
    wrong(field, "a list of numbers");
  return value.get<std::vector<double>>();
}

std::vector<std::size_t> JsonFields::counts(const std::string& field) const {
  if (!has(field)) return {};
  const nlohmann::json& value = at(field);
  const auto is_count = [](const nlohmann::json& element) { return element.is_number_unsigned(); };
  if (!value.is_array() || !std::all_of(value.begin(), value.end(), is_count))
    wrong(field, "a list of whole numbers >= 0");
  return value.get<std::vector<std::size_t>>();
}

std::vector<std::string> JsonFields::texts(const std::string& field) const {
  if (!has(field)) return {};
  const nlohmann::json& value = at(field);
  const auto is_text = [](const nlohmann::json& element) { return element.is_string(); };
  if (!value.is_array() || !std::all_of(value.begin(), value.end(), is_text))
    wrong(field, "a list of strings");
  return value.get<std::vector<std::string>>();
}

std::vector<TokenId> JsonFields::token_ids(const std::string& field) const {
  if (!has(field)) return {};
  const auto to_id = [&](const nlohmann::json& value) {
    if (!value.is_number_integer() || value < 0 || value > std::numeric_limits<TokenId>::max()) {
      wrong(field, "a token id or a list of token ids");
    }
    return value.get<TokenId>();
  };
  const nlohmann::json& value = at(field);
  if (!value.is_array()) return {to_id(value)};
  std::vector<TokenId> ids;
  for (const nlohmann::json& element : value) ids.push_back(to_id(element));
  return ids;
}

JsonFields JsonFields::object(const std::string& field) const {
  if (!at(field).is_object()) wrong(field, "an object");
  return JsonFields(at(field), where_ + ": " + field);
}

}  // namespace tp
