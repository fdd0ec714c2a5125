// Answers in the words of OpenAI's API.
#pragma once

#include "runtime/api/api_request.h"
#include "runtime/api/completion.h"
#include "tp/engine.h"

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace tp {

// A name that no other answer has: "chatcmpl-0f3c...".
std::string new_response_id(std::string_view prefix);

// The body of the answer to a request that has finished: an object `chat.completion` or `text_completion`, as
// the request's form wants it; beside OpenAI's members it has `sampling`, the settings in force. `model` is
// the name that it gets where the request has none. `engine` must have a tokenizer, which gives
// log-probabilities their texts.
nlohmann::ordered_json openai_body(const ApiRequest& request, const Completion& completion,
                                   const Engine& engine, std::string_view model);

// The body of the answer to a request that cannot be served. `type` is OpenAI's: invalid_request_error,
// server_error.
nlohmann::ordered_json openai_error(std::string_view message, std::string_view type);

// A line of output of a batch, around the body of an answer and its HTTP status.
nlohmann::ordered_json openai_batch_line(const nlohmann::json& custom_id, int status,
                                         nlohmann::ordered_json body);

}  // namespace tp
