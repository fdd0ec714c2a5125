// Responses in the format of OpenAI's API.
#pragma once

#include "runtime/api/api_request.h"
#include "runtime/api/completion.h"
#include "tp/engine.h"

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace tp {

// A unique response id: "chatcmpl-0f3c...".
std::string new_response_id(std::string_view prefix);

// The response body for a finished request: a `chat.completion` or `text_completion` object, depending on the
// request's form. Besides OpenAI's members it has `sampling`, the effective settings. `model` is the model
// name if the request has none. `engine` must have a tokenizer, for the texts beside log-probabilities.
nlohmann::ordered_json openai_body(const ApiRequest& request, const Completion& completion,
                                   const Engine& engine, std::string_view model);

// The response body for a request that cannot be served. `type` is OpenAI's: invalid_request_error,
// server_error.
nlohmann::ordered_json openai_error(std::string_view message, std::string_view type);

// A line of a batch's output: a response body with its HTTP status.
nlohmann::ordered_json openai_batch_line(const nlohmann::json& custom_id, int status,
                                         nlohmann::ordered_json body);

}  // namespace tp
