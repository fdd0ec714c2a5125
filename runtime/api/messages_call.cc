// Converts Anthropic's Messages API to a chat.
#include "runtime/api/api_call.h"
#include "runtime/api/offered_tools.h"
#include "runtime/api/openai_request.h"
#include "runtime/api/state_elsewhere.h"
#include "runtime/chat/json_members.h"
#include "tp/internal/require.h"

#include <string>
#include <utility>
#include <vector>

namespace tp {
namespace {

using Json = nlohmann::ordered_json;

// The part of a conversation that was read so far.
struct Conversation {
  Json messages = Json::array();
  std::vector<std::string> warnings{};
};

Json text_parts(const Json& content);

// Adds the value's texts: a text, a list of blocks, or nothing.
void add_texts(const Json& value, Json& parts) {
  require<RequestError>(value.is_null() || value.is_string() || value.is_array(),
                        "`messages`: expected a text or a list of blocks, found {}", shown_part(value));
  if (value.is_string()) parts.push_back({{"type", "text"}, {"text", value}});
  if (!value.is_array()) return;
  for (Json& part : text_parts(value)) parts.push_back(std::move(part));
}

// Adds the texts of a block as parts of a chat. A source of a file, not of a text, is refused.
void add_block(const Json& block, Json& parts) {
  const std::string type = type_of(block);
  const Json source = member_of(block, "source");
  if (type == "text") {
    parts.push_back({{"type", "text"}, {"text", member_of(block, "text")}});
  } else if (type == "document" && (type_of(source) == "text" || type_of(source) == "content")) {
    for (const char* name : {"title", "context"}) add_texts(member_of(block, name), parts);
    add_texts(member_of(source, type_of(source) == "text" ? "data" : "content"), parts);
  } else if (type == "search_result") {
    for (const char* name : {"title", "source", "content"}) add_texts(member_of(block, name), parts);
  } else if (type == "tool_reference") {
    add_texts(member_of(block, "tool_name"), parts);
  } else if (type == "compaction") {
    add_texts(member_of(block, "content"), parts);
  } else {
    throw_error<RequestError>("`messages`: expected blocks with a text, found {}; the model reads texts only",
                              block.is_object() ? shown_part(member_of(block, "type")) : block.type_name());
  }
}

// Returns a text as it is, or converts a list of blocks with texts.
Json text_parts(const Json& content) {
  if (!content.is_array()) return content;
  Json parts = Json::array();
  for (const Json& block : content) add_block(block, parts);
  return parts;
}

Json call_of(const Json& block) {
  const Json function = {{"name", block.value("name", Json())},
                         {"arguments", block.value("input", Json::object())}};
  return {{"id", block.value("id", Json())}, {"type", "function"}, {"function", function}};
}

// The model's thinking. The template decides how much of it to show the model again.
std::string reasoning_in(const Json& content) {
  std::string text;
  for (const Json& block : content) {
    if (type_of(block) != "thinking") continue;
    if (const Json thought = block.value("thinking", Json()); thought.is_string())
      text += thought.get<std::string>();
  }
  return text;
}

// Whether a block reports the work of Anthropic's servers: their tools, or the change to another model.
bool is_of_server(const std::string& type) {
  return type == "server_tool_use" || type == "mcp_tool_use" || type == "mcp_tool_listing" ||
         type == "fallback" || (type.ends_with("_tool_result") && type != "tool_result");
}

Json result_of(const Json& block) {
  const Json content = member_of(block, "content");
  return {{"role", "tool"},
          {"tool_call_id", member_of(block, "tool_use_id")},
          {"content", content.is_null() ? Json("") : text_parts(content)}};
}

// In OpenAI's format, tool results are separate messages. They precede the rest of the user's message.
void add_message(const Json& message, Conversation& conversation) {
  require<RequestError>(message.is_object(), "`messages`: expected a list of objects, found {}",
                        message.type_name());
  const Json content = message.value("content", Json());
  Json texts = Json::array();
  Json calls = Json::array();
  if (!content.is_array())
    return conversation.messages.push_back({{"role", message.value("role", Json())}, {"content", content}});
  for (const Json& block : content) {
    const std::string type = type_of(block);
    if (type == "thinking" || type == "redacted_thinking") continue;
    if (type == "tool_use")
      calls.push_back(call_of(block));
    else if (type == "tool_result")
      conversation.messages.push_back(result_of(block));
    else if (is_of_server(type))
      warn_of("`messages`: blocks", type, conversation.warnings);
    else
      texts.push_back(block);
  }
  if (texts.empty() && calls.empty()) return;
  Json result = {{"role", message.value("role", Json())},
                 {"content", texts.empty() ? Json() : text_parts(texts)}};
  if (!calls.empty()) result["tool_calls"] = std::move(calls);
  if (const std::string reasoning = reasoning_in(content); !reasoning.empty())
    result["reasoning_content"] = reasoning;
  conversation.messages.push_back(std::move(result));
}

Conversation conversation_of(const Json& body) {
  Conversation conversation;
  if (const Json system = body.value("system", Json()); !system.is_null())
    conversation.messages.push_back({{"role", "system"}, {"content", text_parts(system)}});
  const Json given = body.value("messages", Json());
  require<RequestError>(given.is_array(), "`messages`: expected a list, found {}", given.type_name());
  for (const Json& message : given) add_message(message, conversation);
  return conversation;
}

// Whether the client began an answer for the model to continue.
bool is_begun_answer(const Json& message) {
  return message.value("role", Json()) == Json("assistant") && !message.contains("tool_calls") &&
         !message.at("content").is_null() && message.at("content") != Json("");
}

// Both APIs have "auto" and "none".
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

// Accepts {"type": "enabled", "budget_tokens": 1024}, {"type": "disabled"} and {"type": "adaptive"}.
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

// `output_config` contains the answer's format (formerly `output_format`) and the thinking effort.
void read_output_config(const Json& body, Json& chat) {
  const Json config = body.value("output_config", Json());
  require<RequestError>(config.is_null() || config.is_object(),
                        "`output_config`: expected an object, found {}", config.type_name());
  const Json format = member_of(config, "format");
  chat["response_format"] = format.is_null() ? body.value("output_format", Json()) : format;
  chat["reasoning_effort"] = member_of(config, "effort");
}

// Members of the API that are converted to members of a chat.
constexpr std::pair<std::string_view, std::string_view> kNames[] = {{"stop", "stop_sequences"},
                                                                    {"response_format", "output_config"},
                                                                    {"reasoning_effort", "output_config"},
                                                                    {"max_thinking_tokens", "thinking"}};

}  // namespace

ApiCall read_messages_call(const Json& body) {
  refuse_state_elsewhere(body);
  Conversation conversation = conversation_of(body);
  OfferedTools offered = offered_messages_tools(body.value("tools", Json()));
  const bool continues = !conversation.messages.empty() && is_begun_answer(conversation.messages.back());
  Json chat = {{"messages", std::move(conversation.messages)},
               {"tools", std::move(offered.functions)},
               {"tool_choice", choice_of(body.value("tool_choice", Json()))},
               {"stop", body.value("stop_sequences", Json())}};
  if (continues) chat["continue_final_message"] = true;
  chat["chat_template_kwargs"] = body.value("chat_template_kwargs", Json());
  read_thinking(body.value("thinking", Json()), chat);
  read_output_config(body, chat);
  require<RequestError>(body.value("max_tokens", Json()) != Json(-1),
                        "`max_tokens`: expected a number of tokens, found -1");
  const Json choice = body.value("tool_choice", Json());
  if (choice.is_object() && choice.value("disable_parallel_tool_use", Json()) == Json(true))
    chat["parallel_tool_calls"] = false;
  for (const char* name : {"model", "stream"}) chat[name] = body.value(name, Json());
  // 0 is for filling the prefix cache. A chat has no such limit.
  const Json limit = body.value("max_tokens", Json());
  if (limit != 0) chat["max_tokens"] = limit;
  copy_settings(body, {"max_tokens", "stop", "n", "logprobs"}, chat);
  ApiCall call = read_converted_chat(std::move(chat), kNames);
  // Clients ask every model to think, so a model that cannot think just answers.
  call.prompts.front().thinks_if_able = true;
  if (limit == 0) call.prompts.front().settings["max_tokens"] = 0;
  call.warn(offered.warnings);
  call.warn(conversation.warnings);
  return call;
}

}  // namespace tp
