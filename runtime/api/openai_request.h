// Requests in the format of OpenAI's API.
#pragma once

#include "runtime/api/api_request.h"

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
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

// Copies the body's members that are settings of requests to a chat, except settings with these names, for
// which the body's API has its own members.
void copy_settings(const nlohmann::ordered_json& body, std::initializer_list<std::string_view> except,
                   nlohmann::ordered_json& chat);

}  // namespace tp
