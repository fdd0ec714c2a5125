#pragma once

#include "tp/message.h"
#include "tp/token_id.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace tp {

// A request as a client sends it: a prompt, which is one of `text`, `ids` and `conversation`, and settings.
struct ApiRequest {
  // The format of the request and of its response.
  enum class Form : std::uint8_t { line, text_completion, chat_completion };

  Form form = Form::line;
  std::string where{};  // prefix of errors: "requests.jsonl:7"; may be empty
  nlohmann::json id{};  // the client's id of the request, repeated in the response
  std::string model{};  // the requested model name; OpenAI's forms only
  std::string text{};
  std::optional<std::vector<TokenId>> ids{};
  std::optional<nlohmann::ordered_json>
      conversation{};  // the chat template's input: `messages`, and perhaps more
  CallRules calls{};   // the tools that the answer may or must call
  nlohmann::json settings = nlohmann::json::object();  // see request_fields.h
  std::string constraint_member{};      // the client's name for the constraint among `settings`; may be empty
  bool thinks_if_able = false;          // a model that does not think ignores `max_thinking_tokens`
  std::vector<std::string> warnings{};  // parts of the request that were ignored
  std::string error{};  // why the request cannot be served; then the other members may be incomplete
};

}  // namespace tp
