// Converts the stateless part of OpenAI's Responses API to a chat.
#include "runtime/api/api_call.h"
#include "runtime/api/offered_tools.h"
#include "runtime/api/openai_request.h"
#include "runtime/api/responses_items.h"
#include "runtime/api/state_elsewhere.h"
#include "runtime/chat/json_members.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

namespace tp {
namespace {

using Json = nlohmann::ordered_json;

// Members of the API that are converted to members of a chat.
constexpr std::pair<std::string_view, std::string_view> kResponsesNames[] = {
    {"messages", "input"},
    {"response_format", "text"},
    {"reasoning_effort", "reasoning"},
    {"max_tokens", "max_output_tokens"}};

Json messages_of(const Json& body, ItemReader& items) {
  Json messages = Json::array();
  if (const Json instructions = body.value("instructions", Json()); !instructions.is_null())
    messages.push_back({{"role", "system"}, {"content", instructions}});
  const Json input = body.value("input", Json());
  require<RequestError>(input.is_string() || input.is_array(), "`input`: expected a text or a list, found {}",
                        input.type_name());
  if (input.is_string()) messages.push_back({{"role", "user"}, {"content", input}});
  if (input.is_array()) {
    for (const Json& item : input) items.add(item);
  }
  for (Json& message : items.take_messages()) messages.push_back(std::move(message));
  return messages;
}

void check_truncation(const Json& body) {
  const Json truncation = body.value("truncation", Json());
  // "auto" only affects conversations that are too long, which are refused.
  require<RequestError>(truncation.is_null() || truncation == Json("disabled") || truncation == Json("auto"),
                        "`truncation`: expected disabled or auto, found {}", shown_part(truncation));
}

// Log-probabilities are included on request, or with a number of most likely tokens.
void read_logprobs(const Json& body, Json& chat) {
  const Json include = body.value("include", Json());
  require<RequestError>(include.is_null() || include.is_array(), "`include`: expected a list, found {}",
                        shown_part(include));
  const Json top = body.value("top_logprobs", Json());
  const bool is_included =
      std::find(include.begin(), include.end(), Json("message.output_text.logprobs")) != include.end();
  chat["logprobs"] = is_included || (!top.is_null() && top != Json(0));
  chat["top_logprobs"] = top;
}

// The answer repeats these members of the request, so they stay in memory until it ends. The length of the
// prompt bounds only `instructions`.
std::string repeated_of(const Json& body) {
  constexpr std::size_t kMaxMetadata = std::size_t{64} << 10;
  constexpr std::size_t kMaxOthers = std::size_t{1} << 20;
  Json repeated = {{"instructions", nullptr},
                   {"max_tool_calls", nullptr},
                   {"metadata", Json::object()},
                   {"parallel_tool_calls", true},
                   {"prompt_cache_key", nullptr},
                   {"reasoning", {{"effort", nullptr}, {"summary", nullptr}}},
                   {"safety_identifier", nullptr},
                   {"text", {{"format", {{"type", "text"}}}}},
                   {"tool_choice", "auto"},
                   {"tools", Json::array()},
                   {"user", nullptr}};
  for (auto& [name, value] : repeated.items()) {
    Json given = body.value(name, Json());
    if (given.is_null()) continue;
    const std::size_t max = name == "metadata" ? kMaxMetadata : kMaxOthers;
    const std::size_t bytes = name == "instructions" ? 0 : given.dump().size();
    require<RequestError>(bytes <= max, "`{}`: expected at most {} bytes of JSON, found {}; shorten it", name,
                          max, bytes);
    value = std::move(given);
  }
  return repeated.dump();
}

}  // namespace

ApiCall read_responses_call(const Json& body) {
  refuse_state_elsewhere(body);
  check_truncation(body);
  OfferedTools offered = offered_responses_tools(body.value("tools", Json()));
  ItemReader items(offered);
  Json chat = {{"messages", messages_of(body, items)}, {"tools", std::move(offered.functions)}};
  for (const char* name : {"model", "stream", "tool_choice", "parallel_tool_calls", "chat_template_kwargs"})
    chat[name] = body.value(name, Json());
  copy_settings(body, {"max_tokens", "n", "logprobs"}, chat);
  read_logprobs(body, chat);
  chat["max_tokens"] = body.value("max_output_tokens", Json());
  if (const Json reasoning = body.value("reasoning", Json()); !reasoning.is_null()) {
    require<RequestError>(reasoning.is_object(), "`reasoning`: expected an object, found {}",
                          reasoning.type_name());
    chat["reasoning_effort"] = reasoning.value("effort", Json());
  }
  const Json text = body.value("text", Json());
  const Json format = text.is_object() ? text.value("format", Json()) : Json();
  if (!format.is_null()) chat["response_format"] = format;
  ApiCall call = read_converted_chat(std::move(chat), kResponsesNames);
  call.repeated = repeated_of(body);
  call.namespaces = std::move(offered.namespaces);
  call.warn(offered.warnings);
  call.warn(items.warnings());
  return call;
}

}  // namespace tp
