#include "runtime/chat/tool_conventions.h"

#include "runtime/chat/call_shape.h"
#include "runtime/chat/message_syntax.h"
#include "tp/error.h"

#include <nlohmann/json.hpp>

namespace tp {
namespace {

using Json = nlohmann::ordered_json;

// Ids that are part of the notation of calls. Without them, a template would not write calls.
CallIds ids_in_notation(const ChatTemplate& chat) {
  return syntax_of_template(chat.source()).calls.form == CallForm::kimi ? CallIds::named : CallIds::any;
}

bool renders(const ChatTemplate& chat, const Json& messages, const Json& tools) {
  return render_probe(chat, {{"messages", messages}, {"tools", tools}}).has_value();
}

Json question() { return {{"role", "user"}, {"content", "?"}}; }

bool takes_id(const ChatTemplate& chat, const char* id) {
  for (const Json& content : {Json(), Json("")}) {
    Json answer = probe_call({kProbeValue});
    answer["content"] = content;
    answer["tool_calls"][0]["id"] = id;
    const Json result = {{"role", "tool"}, {"tool_call_id", id}, {"name", kProbe}, {"content", "?"}};
    if (renders(chat, Json::array({question(), answer, result}), probe_tools())) return true;
  }
  return false;
}

CallIds find_ids(const ChatTemplate& chat) {
  if (const CallIds ids = ids_in_notation(chat); ids != CallIds::any) return ids;
  return takes_id(chat, kAnyCallId) && !takes_id(chat, "call_0123456789") ? CallIds::nine_characters
                                                                          : CallIds::any;
}

// Whether the template fails if a function lacks this member.
bool needs_member(const ChatTemplate& chat, const char* name) {
  const Json messages = Json::array({question()});
  Json tools = probe_tools();
  if (!renders(chat, messages, tools)) return false;
  tools[0]["function"].erase(name);
  return !renders(chat, messages, tools);
}

}  // namespace

std::optional<std::string> render_probe(const ChatTemplate& chat, const Json& conversation) {
  try {
    Json input = {{"bos_token", ""}, {"eos_token", ""}};  // template files do not contain these tokens
    input.update(conversation);
    write_call_ids(ids_in_notation(chat), input["messages"]);
    return chat.render(input).text();
  } catch (const RequestError&) {
    return std::nullopt;
  }
}

ToolConventions::ToolConventions(const ChatTemplate& chat)
    : ids_(find_ids(chat)),
      needs_description_(needs_member(chat, "description")),
      needs_parameters_(needs_member(chat, "parameters")) {}

void ToolConventions::apply(Json& conversation) const {
  write_call_ids(ids_, conversation["messages"]);
  const auto tools = conversation.find("tools");
  if (tools == conversation.end() || !tools->is_array()) return;
  for (Json& tool : *tools) {
    if (!tool.is_object() || !tool.contains("function") || !tool.at("function").is_object()) continue;
    Json& function = tool["function"];
    if (needs_description_ && !function.contains("description")) function["description"] = "";
    if (needs_parameters_ && !function.contains("parameters"))
      function["parameters"] = {{"type", "object"}, {"properties", Json::object()}};
  }
}

}  // namespace tp
