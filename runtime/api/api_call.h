// What one call of the HTTP API asks for: one or more prompts, and how the results are to be returned.
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
  std::vector<ApiRequest> prompts{};  // alike but for their texts
  bool stream = false;
  bool include_usage = false;    // a stream ends with its usage
  bool return_progress = false;  // a stream reports the progress of long prompts
  bool echo = false;             // texts begin with their prompts
  bool return_token_ids = false;
  int n = 1;
  int usual_max_tokens = 0;     // unless the request or the model says otherwise; 0: all that fit
  int best_of = 0;              // continuations of which the n best are returned; 0: all are
  bool hides_logprobs = false;  // they serve only to find the best
  nlohmann::ordered_json repeated = nlohmann::ordered_json::object();  // members that the answer repeats
  std::map<std::string, NamespacedName> namespaces{};                  // as in OfferedTools
  MemberNames names{};                                                 // of the API, for errors

  std::vector<std::string> warnings() const {
    return prompts.empty() ? std::vector<std::string>() : prompts.front().warnings;
  }
  void warn(const std::vector<std::string>& more) {
    std::vector<std::string>& all = prompts.front().warnings;
    all.insert(all.end(), more.begin(), more.end());
  }
};

// Parses a JSON text of a client. Throws RequestError if it is none, nested too deeply, or no object.
nlohmann::ordered_json parse_body(std::string_view text);

// The bodies of /v1/chat/completions and /v1/completions, in OpenAI's format with the extensions that most
// servers have. Unknown members are ignored. Throws RequestError naming the first member that is wrong or
// asks for what is not supported.
ApiCall read_openai_call(nlohmann::ordered_json body, ApiRequest::Form form);

// The body of OpenAI's /v1/responses, as a chat. Throws RequestError.
ApiCall read_responses_call(const nlohmann::ordered_json& body);

// The body of Anthropic's /v1/messages, as a chat. Throws RequestError.
ApiCall read_messages_call(const nlohmann::ordered_json& body);

}  // namespace tp
