#pragma once

#include "tp/token_id.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace tp {

// What somebody asks of a model: what to continue, one of `text`, `ids` and `conversation`, and the settings
// that come with it.
struct ApiRequest {
  // In whose words it was asked; the answer uses the same.
  enum class Form : std::uint8_t { line, text_completion, chat_completion };

  Form form = Form::line;
  std::string where{};  // the line that it is, which errors begin with: "requests.jsonl:7"; may be empty
  nlohmann::json id{};  // the asker's own name for it, repeated in the answer
  std::string model{};  // the name that was asked for; OpenAI's forms only
  std::string text{};
  std::optional<std::vector<TokenId>> ids{};
  std::optional<nlohmann::ordered_json>
      conversation{};  // what a chat template gets: `messages`, and perhaps more
  nlohmann::json settings = nlohmann::json::object();  // see request_fields.h
  std::string error{};  // why it cannot be served; the other members are what could be read
};

}  // namespace tp
