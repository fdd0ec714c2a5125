#pragma once

#include "runtime/api/api_request.h"
#include "runtime/api/completion.h"
#include "runtime/chat/chat_prompts.h"
#include "tp/engine.h"
#include "tp/request.h"

#include <string>
#include <vector>

namespace tp {

// The default maximum of new tokens: the model's, limited to the free room, or else `otherwise`.
int default_max_tokens(const EngineInfo& info, const Request& request, int otherwise);

// The ids of a prompt. Throws RequestError, before it tokenizes a text that must be too long.
std::vector<TokenId> encode_prompt(const std::string& text, const Engine& engine);

// Completes a request that has a prompt: draws its seed, compiles its constraint, and replaces a default
// maximum of new tokens by the model's. Throws RequestError.
void complete_request(Completion& completion, const Engine& engine);

// Chooses the adapter that has the name of a request's model. Throws RequestError if the engine has adapters,
// and the name belongs neither to one of them nor to the model's folder or file.
void choose_model(const std::string& model, const Engine& engine, Request& request);

// Begins the completion of a client's request: its prompt, and `defaults` overridden by its settings. The
// caller adds the continuations. `chat` renders conversations, and may be null for other requests. Throws
// RequestError.
Completion begin_completion(const ApiRequest& asked, Request defaults, const Engine& engine,
                            const ChatPrompts* chat);

}  // namespace tp
