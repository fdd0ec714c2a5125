#pragma once

#include "runtime/api/api_request.h"
#include "runtime/text/chat_prompts.h"
#include "tp/engine.h"
#include "tp/request.h"

namespace tp {

// The request that an engine gets: `defaults` with the settings and the prompt of what was asked. `chat`
// makes a prompt of a conversation; it may be null for other requests. Throws RequestError.
Request make_engine_request(const ApiRequest& asked, Request defaults, const Engine& engine,
                            const ChatPrompts* chat);

}  // namespace tp
