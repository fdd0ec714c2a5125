// Requests in the format of OpenAI's API.
#pragma once

#include "runtime/api/api_request.h"

#include <cstdint>

#include <nlohmann/json.hpp>

namespace tp {

// What to do with members that nobody knows: a file has a mistake in it, a network client may be of another
// year.
enum class UnknownMembers : std::uint8_t { refuse, ignore };

// Parses the body of a request to /v1/chat/completions or /v1/completions, as `form` says, into `request`;
// sampling parameters become settings. Null members count as absent, and members that only matter to OpenAI's
// own service (`user`, `metadata`, ...) are ignored. Throws RequestError for unsupported members that would
// change the response: several prompts, audio.
void read_openai_body(const nlohmann::ordered_json& body, ApiRequest::Form form, ApiRequest& request,
                      UnknownMembers unknown = UnknownMembers::refuse);

}  // namespace tp
