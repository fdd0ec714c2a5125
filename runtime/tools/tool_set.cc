#include "runtime/tools/tool_set.h"

#include <algorithm>

#include <nlohmann/json.hpp>

namespace tp {
namespace {

using Json = nlohmann::ordered_json;

// A member of what may be anything.
Json schema_member(const Json& object, const char* name) {
  return object.is_object() ? object.value(name, Json()) : Json();
}

std::set<std::string, std::less<>> texts_in(const Json& schema) {
  std::set<std::string, std::less<>> texts;
  const Json properties = schema_member(schema, "properties");
  if (!properties.is_object()) return texts;
  for (const auto& [name, property] : properties.items()) {
    if (schema_member(property, "type") == Json("string")) texts.insert(name);
  }
  return texts;
}

}  // namespace

ToolSet::ToolSet(const Json& tools) {
  if (!tools.is_array()) return;
  for (const Json& tool : tools) {
    const Json function = schema_member(tool, "function");
    const Json name = schema_member(function, "name");
    if (name.is_string()) tools_[name.get<std::string>()] = texts_in(schema_member(function, "parameters"));
  }
}

bool ToolSet::has_name_beginning_with(std::string_view text, std::string_view end) const {
  return std::ranges::any_of(
      tools_, [&](const auto& tool) { return (tool.first + std::string(end)).starts_with(text); });
}

bool ToolSet::is_text(std::string_view tool, std::string_view parameter) const {
  const auto found = tools_.find(tool);
  return found != tools_.end() && found->second.contains(parameter);
}

}  // namespace tp
