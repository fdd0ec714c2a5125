// Anthropic's Messages API, translated to a chat.
#include "runtime/api/api_call.h"
#include "runtime/api/openai_request.h"
#include "tp/internal/require.h"

#include <string>
#include <utility>

namespace tp {
namespace {

using Json = nlohmann::ordered_json;

std::string type_of(const Json& block) {
  const Json type = block.is_object() ? block.value("type", Json()) : Json();
  return type.is_string() ? type.get<std::string>() : "";
}

// A text, or a list of blocks with texts.
Json text_of(const Json& content) {
  if (!content.is_array()) return content;
  Json parts = Json::array();
  for (const Json& block : content) {
    require<RequestError>(type_of(block) == "text", "`messages`: expected blocks of type text, found {}",
                          block.is_object() ? type_of(block) : block.type_name());
    parts.push_back({{"type", "text"}, {"text", block.value("text", Json())}});
  }
  return parts;
}

Json call_of(const Json& block) {
  const Json function = {{"name", block.value("name", Json())},
                         {"arguments", block.value("input", Json::object())}};
  return {{"id", block.value("id", Json())}, {"type", "function"}, {"function", function}};
}

// Results of tools are messages of their own in OpenAI's format, and come before what else the user says.
void add_message(const Json& message, Json& messages) {
  require<RequestError>(message.is_object(), "`messages`: expected a list of objects, found {}",
                        message.type_name());
  const Json content = message.value("content", Json());
  Json texts = Json::array();
  Json calls = Json::array();
  if (!content.is_array())
    return messages.push_back({{"role", message.value("role", Json())}, {"content", content}});
  for (const Json& block : content) {
    const std::string type = type_of(block);
    if (type == "thinking" || type == "redacted_thinking") continue;
    if (type == "tool_use") {
      calls.push_back(call_of(block));
    } else if (type == "tool_result") {
      const Json result = block.value("content", Json());
      messages.push_back({{"role", "tool"},
                          {"tool_call_id", block.value("tool_use_id", Json())},
                          {"content", result.is_null() ? Json("") : text_of(result)}});
    } else {
      texts.push_back(block);
    }
  }
  if (texts.empty() && calls.empty()) return;
  Json result = {{"role", message.value("role", Json())},
                 {"content", texts.empty() ? Json() : text_of(texts)}};
  if (!calls.empty()) result["tool_calls"] = std::move(calls);
  messages.push_back(std::move(result));
}

Json tools_of(const Json& tools) {
  if (!tools.is_array()) return tools;
  Json list = Json::array();
  for (const Json& tool : tools) {
    require<RequestError>(tool.is_object() && tool.contains("name"), "`tools`: expected objects with `name`");
    const std::string type = type_of(tool);
    require<RequestError>(type.empty() || type == "custom", "`tools`: expected tools of yours, found {}",
                          type);
    const Json function = {{"name", tool.at("name")},
                           {"description", tool.value("description", Json(""))},
                           {"parameters", tool.value("input_schema", Json::object())}};
    list.push_back({{"type", "function"}, {"function", function}});
  }
  return list;
}

// "auto" and "none" are the same in both; a tool cannot be forced.
Json choice_of(const Json& choice) {
  if (choice.is_null()) return {};
  const std::string type = type_of(choice);
  require<RequestError>(type == "auto" || type == "none",
                        "`tool_choice`: expected auto or none, found {}; calls cannot be forced", type);
  return type;
}

}  // namespace

ApiCall read_messages_call(const Json& body) {
  Json messages = Json::array();
  if (const Json system = body.value("system", Json()); !system.is_null())
    messages.push_back({{"role", "system"}, {"content", text_of(system)}});
  const Json given = body.value("messages", Json());
  require<RequestError>(given.is_array(), "`messages`: expected a list, found {}", given.type_name());
  for (const Json& message : given) add_message(message, messages);
  Json chat = {{"messages", std::move(messages)},
               {"tools", tools_of(body.value("tools", Json()))},
               {"tool_choice", choice_of(body.value("tool_choice", Json()))},
               {"stop", body.value("stop_sequences", Json())}};
  for (const char* name : {"model", "stream", "max_tokens", "temperature", "top_p", "top_k"})
    chat[name] = body.value(name, Json());
  return read_openai_call(std::move(chat), ApiRequest::Form::chat_completion);
}

}  // namespace tp
