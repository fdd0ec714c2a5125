#include "runtime/api/messages.h"

#include "tp/internal/require.h"

#include <string>

#include <nlohmann/json.hpp>

namespace tp {
namespace {

using Json = nlohmann::ordered_json;

std::string text_of_part(const Json& part, std::size_t message) {
  const std::string type = part.is_object() ? part.value("type", Json()).dump() : part.type_name();
  require<RequestError>(part.is_object() && part.value("type", Json()) == "text" && part.contains("text") &&
                            part.at("text").is_string(),
                        "`messages`: message {} has a part of type {}, expected only parts such as "
                        "{{\"type\": \"text\", \"text\": \"...\"}}",
                        message, type);
  return part.at("text").get<std::string>();
}

Json read_content(const Json& content, std::size_t message) {
  if (content.is_string()) return content;
  require<RequestError>(content.is_array(), "`messages`: `content` of message {} must be a text, found {}",
                        message, content.type_name());
  std::string text;
  for (const Json& part : content) {
    if (!text.empty()) text += '\n';
    text += text_of_part(part, message);
  }
  return text;
}

Json read_message(Json message, std::size_t number) {
  require<RequestError>(
      message.is_object() && message.contains("role") && message.at("role").is_string(),
      "`messages`: message {} has no `role`, expected {{\"role\": \"user\", \"content\": \"...\"}}", number);
  // As a text: g++ 12 warns of the comparison that it makes of a JSON value and a literal.
  auto& role = message.at("role").get_ref<std::string&>();
  if (role == "developer") role = "system";
  const bool has_content = message.contains("content") && !message.at("content").is_null();
  // What a model did may be a call of a tool only.
  require<RequestError>(has_content || role == "assistant", "`messages`: message {} has no `content`",
                        number);
  if (has_content) message.at("content") = read_content(message.at("content"), number);
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
