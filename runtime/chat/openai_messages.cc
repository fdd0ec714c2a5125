#include "runtime/chat/openai_messages.h"

#include "runtime/chat/json_members.h"
#include "tp/internal/require.h"
#include "tp/message.h"

#include <string>

#include <nlohmann/json.hpp>

namespace tp {
namespace {

using Json = nlohmann::ordered_json;

// The name of the member with a part's text. /v1/responses has its own types, and a refusal is also a text.
const char* text_name(const Json& part) {
  const std::string type = type_of(part);
  if (type == "refusal") return "refusal";
  return type == "text" || type == "input_text" || type == "output_text" ? "text" : "";
}

std::string text_of_part(const Json& part, std::size_t message) {
  const Json text = member_of(part, text_name(part));
  require<RequestError>(text.is_string(),
                        "`messages`: message {} has a part of type {}, expected only parts such as "
                        "{{\"type\": \"text\", \"text\": \"...\"}}; the model reads texts only",
                        message, part.is_object() ? shown_part(member_of(part, "type")) : part.type_name());
  return text.get<std::string>();
}

// A text, or the joined texts of a list of parts.
std::string joined_text(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  std::string texts;
  if (!value.is_array()) return texts;
  for (const Json& part : value) texts += joined_text(part.is_object() ? member_of(part, "text") : part);
  return texts;
}

bool is_thought(const Json& part) {
  const std::string type = type_of(part);
  return type == "thinking" || type == "reasoning" || type == "reasoning_text";
}

// The text of a part with thinking. Mistral's member is `thinking`, and other servers have their own names.
std::string thought_of(const Json& part) {
  for (const char* name : {"thinking", "reasoning", "text", "content", "summary"}) {
    if (std::string text = joined_text(member_of(part, name)); !text.empty()) return text;
  }
  return "";
}

// Replaces a list of parts by its text, and moves the model's thinking to `reasoning_content`.
void read_content(Json& message, std::size_t number) {
  const Json content = message.at("content");
  if (content.is_string()) return;
  require<RequestError>(content.is_array(), "`messages`: `content` of message {} must be a text, found {}",
                        number, content.type_name());
  const bool is_model = message.at("role") == Json("assistant");
  std::string text;
  std::string thoughts;
  for (const Json& part : content) {
    std::string& target = is_thought(part) && is_model ? thoughts : text;
    if (!target.empty()) target += '\n';
    target += is_thought(part) ? thought_of(part) : text_of_part(part, number);
  }
  message["content"] = std::move(text);
  if (!thoughts.empty() && !message.contains("reasoning_content"))
    message["reasoning_content"] = std::move(thoughts);
}

// Removes nulls, which clients send for absent members. A null `content` becomes an empty text, unless the
// message has calls.
void read_nulls(Json& message) {
  const bool has_null_content = message.contains("content") && message.at("content").is_null();
  const Json refusal = message.value("refusal", Json());
  const Json given = message;
  for (const auto& [name, value] : given.items()) {
    if (value.is_null() && name != "content") message.erase(name);
  }
  const Json calls = message.value("tool_calls", Json());
  const bool has_calls = calls.is_array() && !calls.empty();
  if (has_null_content && !has_calls) message["content"] = refusal.is_string() ? refusal : Json("");
}

// Converts calls of custom tools to calls of functions of one text.
void read_custom_calls(Json& message) {
  if (!message.contains("tool_calls") || !message.at("tool_calls").is_array()) return;
  for (Json& call : message.at("tool_calls")) {
    if (type_of(call) != "custom") continue;
    const Json custom = member_of(call, "custom");
    call.erase("custom");
    call["type"] = "function";
    call["function"] = {{"name", member_of(custom, "name")},
                        {"arguments", {{kTextParameter, member_of(custom, "input")}}}};
  }
}

Json read_message(Json message, std::size_t number) {
  require<RequestError>(
      message.is_object() && message.contains("role") && message.at("role").is_string(),
      "`messages`: message {} has no `role`, expected {{\"role\": \"user\", \"content\": \"...\"}}", number);
  // Compared as a text, because g++ 12 warns when a JSON value is compared with a literal.
  auto& role = message.at("role").get_ref<std::string&>();
  if (role == "developer") role = "system";
  read_nulls(message);
  read_custom_calls(message);
  const bool has_content = message.contains("content") && !message.at("content").is_null();
  // An assistant's message may consist of tool calls only.
  require<RequestError>(has_content || role == "assistant", "`messages`: message {} has no `content`",
                        number);
  if (has_content) read_content(message, number);
  // vLLM's name.
  if (message.contains("reasoning") && !message.contains("reasoning_content"))
    message["reasoning_content"] = message.at("reasoning");
  return message;
}

}  // namespace

Json read_messages(const Json& messages) {
  require<RequestError>(messages.is_array() && !messages.empty(),
                        "`messages`: expected a list of at least one message, found {}",
                        messages.is_array() ? "none" : messages.type_name());
  Json list = Json::array();
  for (const Json& message : messages) list.push_back(read_message(message, list.size() + 1));
  return list;
}

}  // namespace tp
