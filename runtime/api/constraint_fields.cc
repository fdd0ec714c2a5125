#include "runtime/api/constraint_fields.h"

#include "model/files/json_text.h"
#include "runtime/chat/json_members.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <map>
#include <utility>

namespace tp {
namespace {

using Json = nlohmann::ordered_json;
using constraint::JsonSpace;

constexpr const char* kConstraintSpace = "json_space";

std::string text_value(const nlohmann::json& value) {
  require<RequestError>(value.is_string(), "expected a text, found {}", shown_part(value));
  return value.get<std::string>();
}

// Schemas are kept as text, which preserves the order of their properties.
std::string schema_text(const Json& schema) {
  return schema.is_string() ? schema.get<std::string>() : json_text(schema);
}

JsonSpace* space_of(std::optional<Constraint>& constraint) {
  if (!constraint) return nullptr;
  if (auto* schema = std::get_if<constraint::JsonSchema>(&*constraint)) return &schema->space;
  if (auto* object = std::get_if<constraint::JsonObject>(&*constraint)) return &object->space;
  return nullptr;
}

void set_space(const std::string& space, std::optional<Constraint>& constraint) {
  require<RequestError>(space == "compact" || space == "flexible",
                        "expected compact or flexible, found \"{}\"", space);
  if (JsonSpace* target = space_of(constraint))
    *target = space == "compact" ? JsonSpace::compact : JsonSpace::flexible;
}

// Adds the setting that a member of an API corresponds to. Throws RequestError, with the member's name, for a
// value of the wrong type.
void add_setting(const std::string& member, const std::string& name, const Json& value, ApiRequest& request) {
  nlohmann::json setting = name == "json_schema" ? nlohmann::json(schema_text(value)) : nlohmann::json(value);
  if (name != kConstraintSpace) {
    try {
      std::optional<Constraint> checked;
      set_constraint_field(name, setting, checked);
    } catch (const RequestError& error) {
      throw_error<RequestError>("`{}`: {}", member, error.what());
    }
    request.constraint_member = member;
  }
  request.settings[name] = std::move(setting);
}

void read_response_format(const Json& format, ApiRequest& request) {
  const auto add = [&](const char* name, const Json& value) {
    add_setting("response_format", name, value, request);
  };
  const Json type = format.is_object() ? format.value("type", Json()) : Json();
  if (type == "text") return;
  // llama.cpp accepts a schema here, too.
  if (type == "json_object" && format.value("schema", Json()).is_object())
    return add("json_schema", format.at("schema"));
  if (type == "json_object") return add("json_object", true);
  require<RequestError>(type == "json_schema",
                        "`response_format`: expected the type text, json_object or json_schema, found {}",
                        shown_part(format));
  const bool is_flat = format.contains("schema");  // format of /v1/responses
  const Json named = is_flat ? format : format.value("json_schema", Json());
  require<RequestError>(named.is_object() && named.contains("schema"),
                        "`response_format`: expected {{\"type\": \"json_schema\", \"json_schema\": "
                        "{{\"name\": ..., \"schema\": "
                        "{{...}}}}}}, found {}",
                        shown_part(format));
  add("json_schema", named.at("schema"));
}

void read_structured_outputs(const Json& outputs, ApiRequest& request) {
  static const std::map<std::string, std::string> settings = {{"json", "json_schema"},
                                                              {"json_object", "json_object"},
                                                              {"regex", "regex"},
                                                              {"choice", "choice"},
                                                              {"grammar", "grammar"}};
  require<RequestError>(outputs.is_object(), "`structured_outputs`: expected an object, found {}",
                        shown_part(outputs));
  for (const auto& [name, value] : outputs.items()) {
    if (value.is_null()) continue;
    const auto setting = settings.find(name);
    require<RequestError>(
        setting != settings.end(),
        "`structured_outputs`: expected json, json_object, regex, choice or grammar, found `{}`; "
        "leave it out",
        name);
    add_setting("structured_outputs", setting->second, value, request);
  }
}

}  // namespace

const std::vector<std::string>& constraint_fields() {
  static const std::vector<std::string> names = {"choice", "grammar", "json_object", "json_schema", "regex"};
  return names;
}

void set_constraint_field(const std::string& name, const nlohmann::json& value,
                          std::optional<Constraint>& constraint) {
  if (name == kConstraintSpace) return set_space(text_value(value), constraint);
  if (name == "json_object") {
    require<RequestError>(value.is_boolean(), "expected true or false, found {}", shown_part(value));
    if (value.get<bool>()) constraint = constraint::JsonObject{};
  } else if (name == "json_schema") {
    constraint = constraint::JsonSchema{.schema = schema_text(value)};
  } else if (name == "choice") {
    const bool texts =
        value.is_array() && std::ranges::all_of(value, [](const auto& text) { return text.is_string(); });
    require<RequestError>(texts, "expected a list of texts, found {}", shown_part(value));
    constraint = constraint::Choice{value.get<std::vector<std::string>>()};
  } else if (name == "regex") {
    constraint = constraint::Regex{text_value(value)};
  } else {
    constraint = constraint::Grammar{text_value(value)};
  }
}

nlohmann::json constraint_field(const std::string& name, const std::optional<Constraint>& given) {
  if (!given) return {};
  std::optional<Constraint> constraint = given;
  if (name == kConstraintSpace) {
    const JsonSpace* space = space_of(constraint);
    return space != nullptr && *space == JsonSpace::compact ? nlohmann::json("compact") : nlohmann::json();
  }
  if (const auto* schema = std::get_if<constraint::JsonSchema>(&*constraint); schema && name == "json_schema")
    return schema->schema;
  if (std::holds_alternative<constraint::JsonObject>(*constraint) && name == "json_object") return true;
  if (const auto* regex = std::get_if<constraint::Regex>(&*constraint); regex && name == "regex")
    return regex->pattern;
  if (const auto* choice = std::get_if<constraint::Choice>(&*constraint); choice && name == "choice")
    return choice->texts;
  if (const auto* grammar = std::get_if<constraint::Grammar>(&*constraint); grammar && name == "grammar")
    return grammar->gbnf;
  return {};
}

void require_one_constraint(const nlohmann::json& settings) {
  const auto given = std::ranges::count_if(constraint_fields(), [&](const std::string& name) {
    return settings.contains(name) && settings[name] != false;
  });
  require<RequestError>(given <= 1,
                        "expected one of choice, grammar, json_object, json_schema and regex, found several; "
                        "leave the others out");
}

bool read_constraint_member(const std::string& name, const Json& value, ApiRequest& request) {
  static const std::map<std::string, std::string> settings = {
      {"guided_json", "json_schema"}, {"guided_regex", "regex"},      {"guided_choice", "choice"},
      {"guided_grammar", "grammar"},  {"json_schema", "json_schema"}, {"grammar", "grammar"},
      {"json_space", "json_space"}};
  if (name == "response_format") {
    read_response_format(value, request);
  } else if (name == "structured_outputs") {
    read_structured_outputs(value, request);
  } else if (const auto setting = settings.find(name); setting != settings.end()) {
    if (name != "grammar" || value != "") add_setting(name, setting->second, value, request);
  } else {
    return false;
  }
  return true;
}

}  // namespace tp
