#include "runtime/api/openai_request.h"

#include "runtime/api/messages.h"
#include "runtime/api/prompt_ids.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace tp {
namespace {

using Json = nlohmann::ordered_json;
using Form = ApiRequest::Form;

constexpr int kMaxLogprobs = 20;  // OpenAI's

// Members that become a setting, and the setting's name. The values are checked there.
const std::map<std::string, std::string>& settings() {
  static const std::map<std::string, std::string> table = {
      {"max_tokens", "max_tokens"},
      {"max_completion_tokens", "max_tokens"},
      {"temperature", "temperature"},
      {"top_p", "top_p"},
      {"n", "n"},
      {"stop", "stop"},
      {"seed", "seed"},
      {"presence_penalty", "presence_penalty"},
      {"frequency_penalty", "frequency_penalty"},
      {"logit_bias", "logit_bias"},
      // Extensions that most OpenAI-compatible servers accept.
      {"top_k", "top_k"},
      {"min_p", "min_p"},
      {"repetition_penalty", "repetition_penalty"},
      {"repeat_penalty", "repetition_penalty"},
      {"ignore_eos", "ignore_eos"},
      {"min_tokens", "min_tokens"},
      {"stop_token_ids", "stop_token_ids"},
      {"include_stop_str_in_output", "include_stop_str_in_output"},
      {"bad_words", "bad_words"},
      {"cache_prompt", "cache_prompt"},
      {"cache_salt", "cache_salt"},
      {"priority", "priority"},
  };
  return table;
}

// Members that do not change the response.
const std::set<std::string>& ignored() {
  static const std::set<std::string> names = {"metadata",
                                              "parallel_tool_calls",
                                              "prompt_cache_key",
                                              "prompt_cache_retention",
                                              "service_tier",
                                              "safety_identifier",
                                              "store",
                                              "stream_options",
                                              "user"};
  return names;
}

// Unsupported members, with the values at which they have no effect.
const std::map<std::string, std::vector<Json>>& unsupported() {
  static const std::map<std::string, std::vector<Json>> table = {
      {"add_special_tokens", {true}},
      {"allowed_token_ids", {Json::array()}},
      {"audio", {}},
      {"best_of", {1}},
      {"echo", {false}},
      {"function_call", {"none", "auto"}},
      {"functions", {Json::array()}},
      {"grammar", {""}},
      {"guided_choice", {}},
      {"guided_grammar", {}},
      {"guided_json", {}},
      {"guided_regex", {}},
      {"json_schema", {}},
      {"modalities", {Json::array({"text"})}},
      {"prompt_logprobs", {0}},
      {"response_format", {Json{{"type", "text"}}}},
      {"skip_special_tokens", {true}},
      {"stream", {false}},
      {"structured_outputs", {}},
      {"suffix", {""}},
      {"tool_choice", {"none", "auto"}},
      {"truncate_prompt_tokens", {-1}},
  };
  return table;
}

// The functions that the model may ask for; the chat template describes them to it.
void read_tools(const Json& tools, const Json& choice, ApiRequest& request) {
  require<RequestError>(tools.is_array(), "`tools`: expected a list, found {}", tools.type_name());
  for (const Json& tool : tools) {
    const bool is_function = tool.is_object() && tool.contains("function") && tool.at("function").is_object();
    require<RequestError>(is_function,
                          "`tools`: expected {{\"type\": \"function\", \"function\": {{...}}}}, found {}",
                          tool.dump(-1, ' ', false, Json::error_handler_t::replace));
    const Json strict = tool.at("function").value("strict", Json());
    require<RequestError>(strict.is_null() || strict == Json(false),
                          "`tools`: `strict` calls are not supported; leave it out");
  }
  if (!tools.empty() && choice != Json("none")) (*request.conversation)["tools"] = tools;
}

void read_prompt(const Json& prompt, ApiRequest& request) {
  // A list of one prompt is the same as that prompt.
  if (prompt.is_array() && !prompt.empty() && !prompt.front().is_number()) {
    require<RequestError>(prompt.size() == 1,
                          "`prompt`: expected one prompt, found {}; write a request for each", prompt.size());
    return read_prompt(prompt.front(), request);
  }
  if (prompt.is_string())
    request.text = prompt.get<std::string>();
  else
    request.ids = prompt_ids_of(prompt, "`prompt`");
}

void read_template_arguments(const Json& arguments, ApiRequest& request) {
  require<RequestError>(arguments.is_object(), "`chat_template_kwargs`: expected an object, found {}",
                        arguments.type_name());
  for (const auto& [name, value] : arguments.items()) {
    require<RequestError>(name != "messages" && name != "tools" && name != "add_generation_prompt",
                          "`chat_template_kwargs`: expected what only the chat template knows, found `{}`, "
                          "which is a matter of the request itself; leave it out",
                          name);
    (*request.conversation)[name] = value;
  }
}

// For chats `logprobs` is a switch and `top_logprobs` the number; for completions `logprobs` is the number.
void read_logprobs(const Json& body, Form form, ApiRequest& request) {
  const Json wish = body.value("logprobs", Json());
  const Json number = body.value("top_logprobs", Json());
  const auto check_count = [](const Json& count, const char* name) {
    const bool fits = count.is_null() || (count.is_number_integer() && count >= 0 && count <= kMaxLogprobs);
    require<RequestError>(fits, "`{}`: expected a whole number from 0 to {}, found {}", name, kMaxLogprobs,
                          count.dump());
  };
  if (form == Form::text_completion) {
    check_count(wish, "logprobs");
    if (!wish.is_null()) request.settings["logprobs"] = wish;
    return;
  }
  require<RequestError>(wish.is_null() || wish.is_boolean(), "`logprobs`: expected true or false, found {}",
                        wish.dump());
  check_count(number, "top_logprobs");
  require<RequestError>(number.is_null() || wish == true, "`top_logprobs` needs \"logprobs\": true");
  if (wish == true) request.settings["logprobs"] = number.is_null() ? Json(0) : number;
}

void read_model(const Json& model, ApiRequest& request) {
  require<RequestError>(model.is_string(), "`model`: expected a name, found {}", model.type_name());
  request.model = model.get<std::string>();
}

// Applies a member other than the prompt and those about log-probabilities.
void read_member(const std::string& name, const Json& value, ApiRequest& request, UnknownMembers unknown) {
  // llama.cpp's clients mean a random one.
  if (name == "seed" && value == -1) return;
  if (const auto setting = settings().find(name); setting != settings().end()) {
    request.settings[setting->second] = value;
    return;
  }
  if (ignored().contains(name)) return;
  const auto refused = unsupported().find(name);
  if (refused == unsupported().end() && unknown == UnknownMembers::ignore) return;
  require<RequestError>(refused != unsupported().end(), "there is no field `{}` that is known; leave it out",
                        name);
  const std::vector<Json>& harmless = refused->second;
  require<RequestError>(std::find(harmless.begin(), harmless.end(), value) != harmless.end(),
                        "`{}` is not supported, found {}; leave it out", name,
                        value.dump(-1, ' ', false, Json::error_handler_t::replace));
}

}  // namespace

void read_openai_body(const Json& body, Form form, ApiRequest& request, UnknownMembers unknown) {
  const bool is_chat = form == Form::chat_completion;
  const std::string prompt = is_chat ? "messages" : "prompt";
  request.form = form;
  require<RequestError>(body.is_object(), "expected an object with `{}`, found {}", prompt, body.type_name());
  std::set<std::string> read = {prompt, "model", "logprobs"};
  if (is_chat) read.insert({"top_logprobs", "chat_template_kwargs", "tools"});

  const auto member = [&](const std::string& name) { return body.value(name, Json()); };
  if (!member("model").is_null()) read_model(member("model"), request);
  require<RequestError>(!member(prompt).is_null(), "expected `{}`, found none", prompt);
  if (is_chat) {
    request.conversation = Json{{"messages", read_messages(member(prompt))}};
    if (!member("chat_template_kwargs").is_null())
      read_template_arguments(member("chat_template_kwargs"), request);
    if (!member("tools").is_null()) read_tools(member("tools"), member("tool_choice"), request);
  } else {
    read_prompt(member(prompt), request);
  }
  read_logprobs(body, form, request);
  for (const auto& [name, value] : body.items()) {
    if (!value.is_null() && !read.contains(name)) read_member(name, value, request, unknown);
  }
  // The newer of the two names wins.
  if (const Json tokens = member("max_completion_tokens"); !tokens.is_null())
    request.settings["max_tokens"] = tokens;
}

}  // namespace tp
