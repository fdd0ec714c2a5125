// OpenAI's Responses API, of which a stateless part is translated to a chat.
#include "runtime/api/api_call.h"
#include "runtime/api/openai_request.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <string>
#include <utility>

namespace tp {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kParts[] = {"input_text", "output_text", "text"};

std::string type_of(const Json& item) {
  const Json type = item.is_object() ? item.value("type", Json()) : Json();
  return type.is_string() ? type.get<std::string>() : "";
}

// A text, or a list of parts with texts.
Json content_of(const Json& content) {
  if (!content.is_array()) return content;
  Json parts = Json::array();
  for (const Json& part : content) {
    const std::string type = type_of(part);
    const bool is_text = std::find(std::begin(kParts), std::end(kParts), type) != std::end(kParts);
    require<RequestError>(is_text, "`input`: expected parts of type input_text, found {}",
                          type.empty() ? part.type_name() : type);
    parts.push_back({{"type", "text"}, {"text", part.value("text", Json())}});
  }
  return parts;
}

void add_item(const Json& item, Json& messages) {
  const std::string type = type_of(item);
  require<RequestError>(item.is_object(), "`input`: expected a text or a list of objects, found {}",
                        item.type_name());
  if (type == "reasoning") return;
  if (type == "function_call") {
    const Json function = {{"name", item.value("name", Json())},
                           {"arguments", item.value("arguments", Json())}};
    const Json call = {{"id", item.value("call_id", Json())}, {"type", "function"}, {"function", function}};
    // Calls at the same time are one message.
    const bool continues = !messages.empty() && messages.back().contains("tool_calls");
    if (!continues)
      messages.push_back({{"role", "assistant"}, {"content", nullptr}, {"tool_calls", Json::array()}});
    messages.back()["tool_calls"].push_back(call);
  } else if (type == "function_call_output") {
    messages.push_back({{"role", "tool"},
                        {"tool_call_id", item.value("call_id", Json())},
                        {"content", content_of(item.value("output", Json()))}});
  } else {
    require<RequestError>(type.empty() || type == "message",
                          "`input`: items of type {} are not supported; leave them out", type);
    messages.push_back(
        {{"role", item.value("role", Json())}, {"content", content_of(item.value("content", Json()))}});
  }
}

Json messages_of(const Json& body) {
  Json messages = Json::array();
  if (const Json instructions = body.value("instructions", Json()); !instructions.is_null())
    messages.push_back({{"role", "system"}, {"content", instructions}});
  const Json input = body.value("input", Json());
  require<RequestError>(input.is_string() || input.is_array(), "`input`: expected a text or a list, found {}",
                        input.type_name());
  if (input.is_string()) messages.push_back({{"role", "user"}, {"content", input}});
  if (input.is_array()) {
    for (const Json& item : input) add_item(item, messages);
  }
  return messages;
}

// Their functions are not wrapped in an object of their own.
Json tools_of(const Json& tools) {
  if (!tools.is_array()) return tools;
  Json list = Json::array();
  for (const Json& tool : tools) {
    const std::string type = type_of(tool);
    require<RequestError>(type == "function", "`tools`: expected tools of type function, found {}", type);
    Json function = tool;
    function.erase("type");
    list.push_back({{"type", "function"}, {"function", std::move(function)}});
  }
  return list;
}

void refuse_state(const Json& body) {
  for (const char* name : {"previous_response_id", "conversation", "prompt"}) {
    require<RequestError>(
        body.value(name, Json()).is_null(),
        "`{}` needs a server that remembers, and this one does not; send the whole conversation", name);
  }
  const Json truncation = body.value("truncation", Json());
  require<RequestError>(truncation.is_null() || truncation == Json("disabled"),
                        "`truncation` is not supported; shorten the conversation yourself");
  const Json background = body.value("background", Json());
  require<RequestError>(background.is_null() || background == Json(false),
                        "`background` is not supported; leave it out");
}

// A client finds in the answer what it was an answer to.
Json repeated_of(const Json& body) {
  Json repeated = {{"instructions", nullptr},
                   {"metadata", Json::object()},
                   {"parallel_tool_calls", true},
                   {"reasoning", {{"effort", nullptr}, {"summary", nullptr}}},
                   {"text", {{"format", {{"type", "text"}}}}},
                   {"tool_choice", "auto"},
                   {"tools", Json::array()},
                   {"user", nullptr}};
  for (auto& [name, value] : repeated.items()) {
    if (const Json given = body.value(name, Json()); !given.is_null()) value = given;
  }
  return repeated;
}

}  // namespace

ApiCall read_responses_call(const Json& body) {
  refuse_state(body);
  Json chat = {{"messages", messages_of(body)}, {"tools", tools_of(body.value("tools", Json()))}};
  for (const char* name : {"model",
                           "stream",
                           "temperature",
                           "top_p",
                           "tool_choice",
                           "seed",
                           "stop",
                           "top_k",
                           "min_p",
                           "priority",
                           "parallel_tool_calls",
                           "max_thinking_tokens",
                           "cache_salt",
                           "chat_template_kwargs",
                           "ignore_eos",
                           "steps",
                           "block_length",
                           "unmask",
                           "threshold",
                           "unmask_cache"}) {
    chat[name] = body.value(name, Json());
  }
  chat["max_tokens"] = body.value("max_output_tokens", Json());
  if (const Json reasoning = body.value("reasoning", Json()); !reasoning.is_null()) {
    require<RequestError>(reasoning.is_object(), "`reasoning`: expected an object, found {}",
                          reasoning.type_name());
    chat["reasoning_effort"] = reasoning.value("effort", Json());
  }
  const Json text = body.value("text", Json());
  const Json format = text.is_object() ? text.value("format", Json()) : Json();
  if (!format.is_null()) chat["response_format"] = format;
  try {
    ApiCall call = read_openai_call(std::move(chat), ApiRequest::Form::chat_completion);
    call.repeated = repeated_of(body);
    return call;
  } catch (const RequestError& error) {
    // It names the members of a chat.
    std::string message = error.what();
    for (const auto& [name, original] : {std::pair<std::string, std::string>{"`messages`", "`input`"},
                                         {"`response_format`", "`text`"},
                                         {"`reasoning_effort`", "`reasoning`"},
                                         {"`max_tokens`", "`max_output_tokens`"}}) {
      if (const std::size_t at = message.find(name); at != std::string::npos)
        message.replace(at, name.size(), original);
    }
    throw RequestError(message);
  }
}

}  // namespace tp
