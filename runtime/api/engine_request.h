#pragma once

#include "runtime/api/api_request.h"
#include "runtime/chat/chat_prompts.h"
#include "tp/engine.h"
#include "tp/request.h"

#include <string>

namespace tp {

struct EngineRequest {
  Request request{};
  AnswerSyntax syntax{};          // of the answer
  bool is_held_to_calls = false;  // by a constraint that is none of the client's

  std::string constraint_member{};  // the client's name for the constraint; may be empty

  // fields_of() what the client may send again for the same text.
  nlohmann::json settings() const;
};

// The maximum of new tokens for a request that does not say one: the model's, as far as there is room for it,
// or else `otherwise`.
int default_max_tokens(const EngineInfo& info, const Request& request, int otherwise);

// Converts a client's request into an engine's: `defaults` overridden by its settings, with its prompt.
// `chat` renders conversations and may be null for other requests. Throws RequestError.
EngineRequest make_engine_request(const ApiRequest& asked, Request defaults, const Engine& engine,
                                  const ChatPrompts* chat);

}  // namespace tp
