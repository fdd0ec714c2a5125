// Requests in the format of OpenAI's API.
#pragma once

#include "runtime/api/api_request.h"

#include <nlohmann/json.hpp>

namespace tp {

// Parses the body of a request to /v1/chat/completions or /v1/completions, as `form` says, into `request`;
// sampling parameters become settings. Null members count as absent, and members that only matter to OpenAI's
// own service (`user`, `metadata`, ...) are ignored. Throws RequestError for unknown members, and for
// unsupported ones that would change the response: tools, JSON formats, several prompts.
void read_openai_body(const nlohmann::ordered_json& body, ApiRequest::Form form, ApiRequest& request);

}  // namespace tp
