// A call of the HTTP API: one or more prompts, and the way to return the results.
#pragma once

#include "runtime/api/api_error.h"
#include "runtime/api/api_request.h"
#include "runtime/api/offered_tools.h"

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace tp {

struct ApiCall {
  std::vector<ApiRequest> prompts{};    // differ only in their texts
  std::vector<std::string> warnings{};  // about parts of the body that were ignored
  bool stream = false;
  bool include_usage = false;    // a stream ends with token counts
  bool return_progress = false;  // a stream reports the progress of long prompts
  bool return_token_ids = false;
  int n = 1;
  int usual_max_tokens = 0;     // max_tokens if neither the request nor the model sets it; 0: all that fit
  int best_of = 0;              // number of continuations, of which the best n are returned; 0: return all
  bool hides_logprobs = false;  // log-probabilities are computed only to rank continuations
  std::string repeated = "{}";  // members that the answer repeats, as JSON, which is smaller as a text
  std::map<std::string, NamespacedName> namespaces{};  // as in OfferedTools
  MemberNames names{};                                 // the API's names of members, for errors

  void warn(const std::vector<std::string>& more) {
    warnings.insert(warnings.end(), more.begin(), more.end());
  }
};

// Parses a client's JSON text. Throws RequestError if it is not a JSON object, or is nested too deeply.
nlohmann::ordered_json parse_body(std::string_view text);

// Reads the bodies of /v1/chat/completions and /v1/completions, in OpenAI's format with the extensions that
// most servers support. Ignores unknown members. Throws RequestError with the name of the first invalid or
// unsupported member.
ApiCall read_openai_call(nlohmann::ordered_json body, ApiRequest::Form form);

// Reads a chat that the body of another API was converted to. Errors have the names of the API's members.
ApiCall read_converted_chat(nlohmann::ordered_json chat, MemberNames names);

// Reads the body of OpenAI's /v1/responses as a chat. Throws RequestError.
ApiCall read_responses_call(const nlohmann::ordered_json& body);

// Reads the body of Anthropic's /v1/messages as a chat. Throws RequestError.
ApiCall read_messages_call(const nlohmann::ordered_json& body);

}  // namespace tp
