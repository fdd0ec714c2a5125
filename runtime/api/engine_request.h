#pragma once

#include "runtime/api/api_request.h"
#include "runtime/chat/chat_prompts.h"
#include "tp/engine.h"
#include "tp/request.h"

#include <string>

namespace tp {

struct EngineRequest {
  Request request{};
  AnswerSyntax syntax{};          // syntax of the answer
  bool is_held_to_calls = false;  // by a constraint that the client did not send

  std::string constraint_member{};  // the client's name for the constraint; may be empty

  // The settings in the format of fields_of(): the client may send them again to get the same text.
  nlohmann::json settings() const;
};

// The default maximum of new tokens: the model's, limited to the free room, or else `otherwise`.
int default_max_tokens(const EngineInfo& info, const Request& request, int otherwise);

// Converts a client's request to an engine request: its prompt, and `defaults` overridden by its settings.
// `chat` renders conversations, and may be null for other requests. Throws RequestError.
EngineRequest make_engine_request(const ApiRequest& asked, Request defaults, const Engine& engine,
                                  const ChatPrompts* chat);

}  // namespace tp
