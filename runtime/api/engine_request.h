#pragma once

#include "runtime/api/api_request.h"
#include "runtime/text/chat_prompts.h"
#include "tp/engine.h"
#include "tp/request.h"

namespace tp {

// Converts a client's request into an engine's: `defaults` overridden by its settings, with its prompt.
// `chat` renders conversations and may be null for other requests. Throws RequestError.
Request make_engine_request(const ApiRequest& asked, Request defaults, const Engine& engine,
                            const ChatPrompts* chat);

}  // namespace tp
