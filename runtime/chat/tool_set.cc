#include "runtime/chat/tool_set.h"

#include <algorithm>

#include <nlohmann/json.hpp>

namespace tp {
namespace {

using Json = nlohmann::ordered_json;

// Returns a member of a value, or null if the value is not an object.
Json schema_member(const Json& object, const char* name) {
  return object.is_object() ? object.value(name, Json()) : Json();
}

}  // namespace

ToolSet::ToolSet(const Json& tools) {
  if (!tools.is_array()) return;
  SchemaWork work;
  for (const Json& tool : tools) {
    const Json function = schema_member(tool, "function");
    const Json name = schema_member(function, "name");
    if (name.is_string())
      tools_[name.get<std::string>()] = tool_of(schema_member(function, "parameters"), work);
  }
}

ToolSet::Tool ToolSet::tool_of(const Json& schema, SchemaWork& work) {
  Tool tool;
  const Json properties = schema_member(schema, "properties");
  if (properties.is_object()) {
    for (const auto& [name, property] : properties.items())
      tool.parameters[name] = types_in(property, schema, work);
  }
  for (const Json& name : schema_member(schema, "required")) {
    if (name.is_string()) tool.required.insert(name.get<std::string>());
  }
  return tool;
}

bool ToolSet::has_name_beginning_with(std::string_view text, std::string_view end) const {
  return std::ranges::any_of(
      tools_, [&](const auto& tool) { return (tool.first + std::string(end)).starts_with(text); });
}

ValueTypes ToolSet::types_of(std::string_view tool, std::string_view parameter) const {
  const auto found = tools_.find(tool);
  if (found == tools_.end()) return kAnyType;
  const auto types = found->second.parameters.find(parameter);
  return types == found->second.parameters.end() ? kAnyType : types->second;
}

bool ToolSet::may_have(std::string_view tool, std::string_view parameter) const {
  const auto found = tools_.find(tool);
  return found != tools_.end() &&
         (found->second.parameters.empty() || found->second.parameters.contains(parameter));
}

bool ToolSet::requires_more(std::string_view tool, const std::vector<std::string>& given) const {
  const auto found = tools_.find(tool);
  return found != tools_.end() && std::ranges::any_of(found->second.required, [&](const std::string& name) {
           return std::ranges::find(given, name) == given.end();
         });
}

}  // namespace tp
