#pragma once

#include "tp/message.h"
#include "tp/token_id.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace tp {

// Facts about a request that its answer repeats, or that determine the answer's format.
struct AnswerFacts {
  // The format of the request and of its answer.
  enum class Form : std::uint8_t { line, text_completion, chat_completion };

  Form form = Form::line;
  std::string where{};  // prefix of errors: "requests.jsonl:7"; may be empty
  nlohmann::json id{};  // the client's id of the request; may be null
  std::string model{};  // the requested model name; OpenAI's forms only
  std::string echo{};   // the text that precedes continuations in text output; may be empty
  // OpenAI's `echo`: texts begin with their prompts, and log-probabilities with the prompt's.
  bool repeats_prompt = false;
};

// A request as a client sends it: a prompt, which is one of `text`, `ids` and `conversation`, and settings.
struct ApiRequest {
  using Form = AnswerFacts::Form;

  AnswerFacts facts{};
  std::string text{};
  std::optional<std::vector<TokenId>> ids{};
  std::optional<nlohmann::ordered_json>
      conversation{};  // the chat template's input: `messages`, and perhaps more
  CallRules calls{};   // the tools that the answer may or must call
  nlohmann::json settings = nlohmann::json::object();  // see request_fields.h
  std::string constraint_member{};  // the client's name for the constraint among `settings`; may be empty
  bool thinks_if_able = false;      // a model that does not think ignores `max_thinking_tokens`
  std::string error{};  // why the request cannot be served; then the other members may be incomplete
};

}  // namespace tp
