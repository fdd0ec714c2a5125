// Requests in the words of OpenAI's API.
#pragma once

#include "runtime/api/api_request.h"

#include <nlohmann/json.hpp>

namespace tp {

// Reads the body of a request to /v1/chat/completions or /v1/completions, whichever `form` says, into
// `request`; what it says of samples and penalties becomes settings. A member that is null counts as not
// given, and members that only matter to OpenAI's own service (`user`, `metadata`, ...) are ignored. Throws
// RequestError for members that are not known and for what would change the answer and is not supported:
// tools, JSON formats, several prompts.
void read_openai_body(const nlohmann::ordered_json& body, ApiRequest::Form form, ApiRequest& request);

}  // namespace tp
