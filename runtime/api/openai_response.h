// Responses in the format of OpenAI's API.
#pragma once

#include "runtime/api/api_request.h"
#include "runtime/api/completion.h"
#include "runtime/api/token_places.h"
#include "tp/engine.h"

#include <cstddef>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace tp {

// A unique response id: "chatcmpl-0f3c...".
std::string new_response_id(std::string_view prefix);

// The response body for a finished request: a `chat.completion` or `text_completion` object, depending on the
// request's form. In addition to OpenAI's members it has `sampling`, the effective settings. `model` is the
// default model name. `engine` must have a tokenizer, for the texts of log-probabilities.
nlohmann::ordered_json openai_body(const Completion& completion, const Engine& engine,
                                   std::string_view model);

// Parts of response bodies: the choice of a continuation, and the log-probabilities of its tokens (null if
// not requested). `places` has counted the continuation's earlier tokens. `offset`: characters before the
// continuation.
nlohmann::ordered_json openai_choice(ApiRequest::Form form, const Engine& engine,
                                     const Continuation& continuation, std::size_t index);
nlohmann::ordered_json openai_logprobs(ApiRequest::Form form, const Engine& engine,
                                       const Continuation& continuation, TokenPlaces& places,
                                       std::size_t offset = 0);

// A token of a chat or a response with its log-probabilities.
nlohmann::ordered_json scored_token(const Engine& engine, const ScoredToken& token);

// A call of a tool in a message. `takes_text`: the tool is a custom tool, and `arguments` is its text.
nlohmann::ordered_json openai_tool_call(const std::string& id, const std::string& name,
                                        const std::string& arguments, bool takes_text);

// Puts the prompt before a completion's text and log-probabilities. Returns the number of characters added.
std::size_t add_echo(const Engine& engine, const Completion& completion, nlohmann::ordered_json& choice);

// Token counts. `cached` is part of `prompt`, and `reasoning` is part of `generated`.
nlohmann::ordered_json openai_usage(std::size_t prompt, std::size_t cached, std::size_t generated,
                                    std::size_t reasoning);

// A line of a batch's output: a response body with its HTTP status.
nlohmann::ordered_json openai_batch_line(const nlohmann::json& custom_id, int status,
                                         nlohmann::ordered_json body);

}  // namespace tp
