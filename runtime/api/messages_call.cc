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

// What a model thought is given to the template, which knows how much of it the model is to see again.
std::string reasoning_in(const Json& content) {
  std::string text;
  for (const Json& block : content) {
    if (type_of(block) != "thinking") continue;
    if (const Json thought = block.value("thinking", Json()); thought.is_string())
      text += thought.get<std::string>();
  }
  return text;
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
  if (const std::string reasoning = reasoning_in(content); !reasoning.empty())
    result["reasoning_content"] = reasoning;
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
                           {"parameters", tool.value("input_schema", Json::object())},
                           {"strict", tool.value("strict", Json(false))}};
    list.push_back({{"type", "function"}, {"function", function}});
  }
  return list;
}

// "auto" and "none" are the same in both.
Json choice_of(const Json& choice) {
  if (choice.is_null()) return {};
  const std::string type = type_of(choice);
  if (type == "any") return "required";
  if (type == "tool") return {{"type", "function"}, {"name", choice.value("name", Json())}};
  require<RequestError>(type == "auto" || type == "none",
                        "`tool_choice`: expected the type auto, none, any or tool, found {}",
                        choice.is_object() ? type : choice.type_name());
  return type;
}

// {"type": "enabled", "budget_tokens": 1024}, {"type": "disabled"}, and {"type": "adaptive"}.
void read_thinking(const Json& thinking, Json& chat) {
  if (thinking.is_null()) return;
  const std::string type = type_of(thinking);
  require<RequestError>(type == "enabled" || type == "disabled" || type == "adaptive",
                        "`thinking`: expected the type enabled, disabled or adaptive, found {}",
                        thinking.dump());
  if (type == "enabled") {
    const Json budget = thinking.value("budget_tokens", Json());
    require<RequestError>(budget.is_number_integer() && budget > 0,
                          "`thinking`: expected budget_tokens, a whole number above 0, found {}",
                          budget.dump());
    chat["max_thinking_tokens"] = budget;
  }
  Json& arguments = chat["chat_template_kwargs"];
  if (arguments.is_null()) arguments = Json::object();
  if (type != "adaptive" && arguments.is_object() && !arguments.contains("enable_thinking"))
    arguments["enable_thinking"] = type == "enabled";
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
  chat["chat_template_kwargs"] = body.value("chat_template_kwargs", Json());
  read_thinking(body.value("thinking", Json()), chat);
  const Json choice = body.value("tool_choice", Json());
  if (choice.is_object() && choice.value("disable_parallel_tool_use", Json()) == Json(true))
    chat["parallel_tool_calls"] = false;
  for (const char* name : {"model", "stream", "max_tokens", "temperature", "top_p", "top_k"})
    chat[name] = body.value(name, Json());
  try {
    return read_openai_call(std::move(chat), ApiRequest::Form::chat_completion);
  } catch (const RequestError& error) {
    // It names the members of a chat.
    std::string message = error.what();
    if (const std::size_t at = message.find("`stop`"); at != std::string::npos)
      message.replace(at, 6, "`stop_sequences`");
    throw RequestError(message);
  }
}

}  // namespace tp
