#include "launch/chat/messages_file.h"

#include "launch/options/prompts.h"
#include "model/files/json_text.h"
#include "model/files/strict_json.h"
#include "tp/internal/require.h"

#include <fstream>

#include <nlohmann/json.hpp>

namespace tp {
namespace {

nlohmann::ordered_json parse(const std::string& text, const std::string& name) {
  try {
    return parse_strict_json<nlohmann::ordered_json>(text);
  } catch (const JsonError& error) {
    throw_error<RequestError>("{}: expected a JSON object with \"messages\" ({})", name, error.what());
  }
}

}  // namespace

nlohmann::ordered_json read_messages_file(const std::string& path) {
  const std::string name = path == "-" ? "standard input" : path;
  nlohmann::ordered_json conversation = parse(read_prompt_file(path), name);
  const bool has_messages = conversation.is_object() && conversation.contains("messages");
  require<RequestError>(
      has_messages && conversation.at("messages").is_array(),
      "{}: expected a JSON object with a list of \"messages\", found {}; write {{\"messages\": [{{\"role\": "
      "\"user\", \"content\": \"...\"}}]}}",
      name, has_messages ? "messages that are no list" : "none");
  for (const auto& message : conversation.at("messages")) {
    require<RequestError>(
        message.is_object() && message.contains("role") && message.at("role").is_string(),
        "{}: expected messages with a `role`, found a message without it; add \"role\": \"user\"", name);
    const auto calls = message.find("tool_calls");
    for (std::size_t i = 0; calls != message.end() && calls->is_array() && i < calls->size(); ++i) {
      const auto& call = (*calls)[i];
      const nlohmann::ordered_json::json_pointer place("/function/name");
      require<RequestError>(
          call.is_object() && call.contains("id") && call.contains(place) && call.at(place).is_string(),
          "{}: expected an `id` and a `function.name` in each of `tool_calls`, found a call without "
          "them; add them",
          name);
    }
  }
  return conversation;
}

void write_messages_file(const std::string& path, const nlohmann::ordered_json& conversation) {
  std::ofstream file(path, std::ios::binary);
  file << json_text(conversation, 2) << '\n';
  file.flush();
  require<RequestError>(
      file.good(), "cannot write {}: expected a file that can be written; check the path and the disk", path);
}

}  // namespace tp
