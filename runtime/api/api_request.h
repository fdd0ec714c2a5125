#pragma once

#include "runtime/chat/call_rules.h"
#include "tp/token_id.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace tp {

// A request as a client sends it: a prompt, which is one of `text`, `ids` and `conversation`, and settings.
struct ApiRequest {
  // The format of the request, which the response uses too.
  enum class Form : std::uint8_t { line, text_completion, chat_completion };

  Form form = Form::line;
  std::string where{};  // prefix of errors: "requests.jsonl:7"; may be empty
  nlohmann::json id{};  // the client's id for it, repeated in the response
  std::string model{};  // the requested model name; OpenAI's forms only
  std::string text{};
  std::optional<std::vector<TokenId>> ids{};
  std::optional<nlohmann::ordered_json>
      conversation{};  // the chat template's input: `messages`, and perhaps more
  CallRules calls{};   // which tools the answer may or must call
  nlohmann::json settings = nlohmann::json::object();  // see request_fields.h
  std::string constraint_member{};      // the client's name for the constraint among `settings`; may be empty
  bool thinks_if_able = false;          // `max_thinking_tokens` is no matter for a model that does not think
  std::vector<std::string> warnings{};  // what it asks for and does not get
  std::string error{};  // why it cannot be served; the other members are then as far as they could be read
};

}  // namespace tp
