#include "runtime/api/offered_tools.h"

#include "runtime/chat/json_members.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>

namespace tp {
namespace {

using Json = nlohmann::ordered_json;

// Clients send null for absent members.
Json without_nulls(const Json& object) {
  Json result = Json::object();
  for (const auto& [name, value] : object.items()) {
    if (!value.is_null()) result[name] = value;
  }
  return result;
}

void offer(const Json& function, OfferedTools& offered) {
  offered.functions.push_back({{"type", "function"}, {"function", without_nulls(function)}});
}

// Reads {"type": "text"}, or {"type": "grammar"} with `syntax` and `definition`, which chat completions have
// in a member `grammar`.
TextFormat format_of(const std::string& name, const Json& format) {
  using Syntax = TextFormat::Syntax;
  const std::string type = type_of(format);
  if (format.is_null() || type == "text") return {};
  const Json inside = member_of(format, "grammar");
  const Json& grammar = inside.is_object() ? inside : format;
  const Json syntax = member_of(grammar, "syntax");
  const Json definition = member_of(grammar, "definition");
  const bool is_lark = syntax == Json("lark");
  require<RequestError>(type == "grammar" && (is_lark || syntax == Json("regex")) && definition.is_string(),
                        "`tools`: expected as `format` of `{}` {{\"type\": \"text\"}} or {{\"type\": "
                        "\"grammar\", \"syntax\": \"lark\" or \"regex\", \"definition\": ...}}, found {}; "
                        "correct it",
                        name, shown_part(format));
  return {.syntax = is_lark ? Syntax::lark : Syntax::regex, .definition = definition.get<std::string>()};
}

// Offers a custom tool as a function of one text. The model sees the text's format.
void offer_custom(const Json& tool, OfferedTools& offered) {
  require<RequestError>(member_of(tool, "name").is_string(),
                        "`tools`: expected {{\"type\": \"custom\", \"custom\": {{\"name\": ...}}}}, found {}",
                        shown_part(tool));
  const std::string name = tool.at("name");
  const TextFormat format = format_of(name, member_of(tool, "format"));
  Json input = {{"type", "string"}};
  if (format.syntax == TextFormat::Syntax::lark)
    input["description"] = "A text in the format of this Lark grammar:\n" + format.definition;
  if (format.syntax == TextFormat::Syntax::regex)
    input["description"] = "A text that this regular expression matches: " + format.definition;
  const Json parameters = {{"type", "object"},
                           {"properties", {{kTextParameter, input}}},
                           {"required", Json::array({kTextParameter})}};
  offer({{"name", name}, {"description", member_of(tool, "description")}, {"parameters", parameters}},
        offered);
  offered.texts[name] = format;
}

void leave_out(const std::string& type, OfferedTools& offered) {
  warn_of("`tools`: tools", type, offered.warnings);
}

OfferedTools begin(const Json& tools) { return {.functions = tools.is_array() ? Json::array() : tools}; }

bool is_offered(const std::string& type) { return type == "function" || type == "custom"; }

// The members of a function or a custom tool in the format of /v1/responses.
Json members_of(const Json& tool) {
  if (const Json inside = member_of(tool, type_of(tool).c_str()); inside.is_object()) return inside;
  Json members = tool;
  members.erase("type");
  return members;
}

void offer_members(const std::string& type, const Json& members, OfferedTools& offered) {
  if (type == "function")
    offer(members, offered);
  else
    offered.functions.push_back({{"type", "custom"}, {"custom", members}});
}

std::string text_member(const Json& object, const char* name) {
  const Json value = member_of(object, name);
  return value.is_string() ? value.get<std::string>() : "";
}

std::multiset<std::string> names_in(const Json& tools) {
  std::multiset<std::string> names;
  for (const Json& tool : tools) {
    if (is_offered(type_of(tool))) names.insert(text_member(members_of(tool), "name"));
    const bool has_inner = type_of(tool) == "namespace" && tool.contains("tools");
    if (has_inner && tool.at("tools").is_array()) names.merge(names_in(tool.at("tools")));
  }
  return names;
}

std::string qualified(const std::string& space, const std::string& name) {
  return space + (space.ends_with('_') ? "" : "__") + name;
}

void offer_namespace(const Json& tool, const std::multiset<std::string>& names, OfferedTools& offered) {
  const std::string space = text_member(tool, "name");
  const Json inner = member_of(tool, "tools");
  require<RequestError>(!space.empty() && inner.is_array(),
                        "`tools`: expected a namespace with `name` and a list `tools`, found {}",
                        shown_part(tool));
  for (const Json& each : inner) {
    const std::string type = type_of(each);
    if (!is_offered(type)) {
      leave_out(type, offered);
      continue;
    }
    Json members = members_of(each);
    const std::string name = text_member(members, "name");
    const std::string known = names.count(name) == 1 ? name : qualified(space, name);
    members["name"] = known;
    offered.namespaces[known] = {.space = space, .name = name};
    offered.known_names[{space, name}] = known;
    offer_members(type, members, offered);
  }
}

}  // namespace

std::string OfferedTools::name_of(const std::string& space, const std::string& name) const {
  const auto found = known_names.find({space, name});
  return found == known_names.end() ? name : found->second;
}

OfferedTools offered_chat_tools(const Json& tools) {
  OfferedTools offered = begin(tools);
  if (!tools.is_array()) return offered;
  for (const Json& tool : tools) {
    const std::string type = type_of(tool);
    const Json function = member_of(tool, "function");
    if (type == "custom") {
      offer_custom(member_of(tool, "custom"), offered);
    } else if (!type.empty() && type != "function") {
      leave_out(type, offered);
    } else {
      // A common mistake is the form of /v1/responses.
      require<RequestError>(
          function.is_object(),
          "`tools`: expected {{\"type\": \"function\", \"function\": {{...}}}}, found {}; put "
          "the function's members into `function`",
          shown_part(tool));
      offer(function, offered);
    }
  }
  return offered;
}

OfferedTools offered_responses_tools(const Json& tools) {
  OfferedTools offered = begin(tools);
  if (!tools.is_array()) return offered;
  const std::multiset<std::string> names = names_in(tools);
  for (const Json& tool : tools) {
    const std::string type = type_of(tool);
    require<RequestError>(!type.empty(), "`tools`: expected objects with a `type`, found {}",
                          shown_part(tool));
    if (is_offered(type))
      offer_members(type, members_of(tool), offered);
    else if (type == "namespace")
      offer_namespace(tool, names, offered);
    else
      leave_out(type, offered);
  }
  return offered;
}

OfferedTools offered_messages_tools(const Json& tools) {
  OfferedTools offered = begin(tools);
  if (!tools.is_array()) return offered;
  for (const Json& tool : tools) {
    const std::string type = type_of(tool);
    if (!type.empty() && type != "custom") {
      leave_out(type, offered);
      continue;
    }
    require<RequestError>(!member_of(tool, "name").is_null(),
                          "`tools`: expected objects with `name`, found {}", shown_part(tool));
    const Json schema = member_of(tool, "input_schema");
    offer({{"name", tool.at("name")},
           {"description", member_of(tool, "description")},
           {"parameters", schema.is_null() ? Json::object() : schema},
           {"strict", member_of(tool, "strict")}},
          offered);
  }
  return offered;
}

void warn_of(std::string_view what, std::string_view type, std::vector<std::string>& warnings) {
  constexpr std::size_t kMax = 64;
  constexpr std::size_t kMaxWarnings = 16;
  if (warnings.size() > kMaxWarnings) return;
  std::string shown(type.substr(0, kMax));
  std::ranges::replace_if(
      shown,
      [](unsigned char byte) {
        return byte >= 0x80 || (std::isalnum(byte) == 0 && byte != '_' && byte != '-');
      },
      '?');
  std::string warning = fmt::format("{} of type {} were left out: this server does not know them", what,
                                    shown.empty() ? "?" : shown);
  if (std::ranges::find(warnings, warning) != warnings.end()) return;
  if (warnings.size() == kMaxWarnings) warning = fmt::format("{} of other types were left out, too", what);
  warnings.push_back(std::move(warning));
}

}  // namespace tp
