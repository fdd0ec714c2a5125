// Requests in the format of OpenAI's API.
#pragma once

#include "runtime/api/api_request.h"

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace tp {

// Treatment of unknown members: in a file they are mistakes, but a network client may use a newer API.
enum class UnknownMembers : std::uint8_t { refuse, ignore };

// Parses the body of a request to /v1/chat/completions or /v1/completions (according to `form`) into
// `request`. Sampling parameters become settings. Null members count as absent. Members that only matter to
// OpenAI's own service (`user`, `metadata`, ...) are ignored. Throws RequestError for unsupported members
// that would change the response: several prompts, audio. Returns warnings about ignored parts.
std::vector<std::string> read_openai_body(const nlohmann::ordered_json& body, ApiRequest::Form form,
                                          ApiRequest& request,
                                          UnknownMembers unknown = UnknownMembers::refuse);

}  // namespace tp
