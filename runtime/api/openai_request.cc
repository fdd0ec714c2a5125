#include "runtime/api/openai_request.h"

#include "model/files/json_text.h"
#include "runtime/api/constraint_fields.h"
#include "runtime/api/offered_tools.h"
#include "runtime/api/prompt_ids.h"
#include "runtime/api/request_fields.h"
#include "runtime/api/state_elsewhere.h"
#include "runtime/chat/json_members.h"
#include "runtime/chat/openai_messages.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace tp {
namespace {

using Json = nlohmann::ordered_json;
using Form = ApiRequest::Form;

constexpr int kMaxLogprobs = 20;  // OpenAI's limit

// The names of settings that only batch lines have: bodies have other members for them, or none.
constexpr std::string_view kNamesInLines[] = {"bad_words_ids", "choice", "decoder_ids", "json_object",
                                              "regex"};

// The setting that a member becomes; empty if it becomes none. set_fields checks the value.
std::string setting_of(const std::string& member) {
  if (member == "max_completion_tokens") return "max_tokens";
  if (member == "repeat_penalty") return "repetition_penalty";
  if (member == "thinking_token_budget") return "max_thinking_tokens";  // vLLM's name
  return is_field(member) && std::ranges::find(kNamesInLines, member) == std::end(kNamesInLines) ? member
                                                                                                 : "";
}

// Members without effect on the response.
const std::set<std::string>& ignored() {
  static const std::set<std::string> names = {"metadata",
                                              "prompt_cache_key",
                                              "prompt_cache_retention",
                                              "service_tier",
                                              "safety_identifier",
                                              "store",
                                              "stream_options",
                                              "user"};
  return names;
}

// Unsupported members, with the values that have no effect.
const std::map<std::string, std::vector<Json>>& unsupported() {
  static const std::map<std::string, std::vector<Json>> table = {
      {"add_special_tokens", {true}},
      {"allowed_token_ids", {Json::array()}},
      {"audio", {}},
      {"best_of", {1}},
      {"echo", {false}},
      {"function_call", {"none", "auto"}},
      {"functions", {Json::array()}},
      {"modalities", {Json::array({"text"})}},
      {"prompt_logprobs", {0}},
      {"skip_special_tokens", {true}},
      {"stream", {false}},
      {"suffix", {""}},
      {"truncate_prompt_tokens", {-1}},
  };
  return table;
}

void check_tool(const Json& tool) {
  const Json& function = tool.at("function");
  const Json name = function.value("name", Json());
  require<RequestError>(name.is_string() && !name.get_ref<const std::string&>().empty(),
                        "`tools`: expected functions with a `name`, found {}", shown_part(name));
  const Json strict = function.value("strict", Json());
  require<RequestError>(strict.is_null() || strict.is_boolean(),
                        "`tools`: expected true or false as `strict`, found {} in `{}`", shown_part(strict),
                        name.get_ref<const std::string&>());
}

// The name in {"type": "function", "function": {"name": ...}} or {"type": "custom", "custom": {"name": ...}},
// or in the outer object, as in /v1/responses.
Json tool_name(const Json& choice) {
  for (const char* type : {"function", "custom"}) {
    if (const Json inside = member_of(member_of(choice, type), "name"); !inside.is_null()) return inside;
  }
  return member_of(choice, "name");
}

// Reads {"type": "allowed_tools", "mode": "auto" or "required", "tools": [...]}: removes all other tools, and
// returns the mode.
Json keep_allowed(const Json& choice, Json& tools) {
  const Json inside = member_of(choice, "allowed_tools");
  const Json& allowed = inside.is_object() ? inside : choice;
  const Json list = member_of(allowed, "tools");
  const Json mode = member_of(allowed, "mode");
  require<RequestError>(list.is_array(), "`tool_choice`: expected a list `tools` of allowed tools, found {}",
                        shown_part(choice));
  std::set<Json> names;
  for (const Json& tool : list) names.insert(tool_name(tool));
  Json kept = Json::array();
  for (const Json& tool : tools) {
    if (names.contains(tool.at("function").at("name"))) kept.push_back(tool);
  }
  tools = std::move(kept);
  return mode.is_null() ? Json("auto") : mode;
}

// Converts a choice to "none", "auto", "required", or a function. Mistral's name for "required" is "any".
Json plain_choice(const Json& choice, Json& tools) {
  const std::string type = type_of(choice);
  if (type == "allowed_tools") return plain_choice(keep_allowed(choice, tools), tools);
  if (choice == Json("any") || type == "any") return "required";
  if (type == "none" || type == "auto" || type == "required") return type;
  return choice;
}

void read_tool_choice(const Json& choice, const Json& tools, CallRules& rules) {
  if (choice.is_null() || choice == Json("auto") || choice == Json("none")) return;
  const std::string type = type_of(choice);
  const Json name = tool_name(choice);
  const bool is_typed = type.empty() || type == "function" || type == "custom" || type == "tool";
  const bool is_named = is_typed && name.is_string();
  require<RequestError>(
      is_named || choice == Json("required"),
      "`tool_choice`: expected none, auto, required, allowed_tools or {{\"type\": \"function\", "
      "\"function\": {{\"name\": ...}}}}, found {}",
      shown_part(choice));
  rules.required = true;
  const bool is_known = std::any_of(tools.begin(), tools.end(), [&](const Json& tool) {
    return !is_named || tool.at("function").at("name") == name;
  });
  require<RequestError>(is_known, "`tool_choice`: expected a tool of `tools`, found {}; add it there",
                        is_named ? shown_part(name) : "none");
  if (!is_named) return;
  rules.name = name.get<std::string>();
  rules.has_one_call = true;
}

// Reads the tools that the model may call; the chat template describes them to the model.
// Returns warnings about tools that were left out.
std::vector<std::string> read_tools(const Json& given, const Json& wish, UnknownMembers unknown,
                                    ApiRequest& request) {
  require<RequestError>(given.is_null() || given.is_array(), "`tools`: expected a list, found {}",
                        given.type_name());
  OfferedTools offered = offered_chat_tools(given);
  require<RequestError>(
      unknown == UnknownMembers::ignore || offered.warnings.empty(),
      "`tools`: expected tools of type function or custom, found other types; leave them out");
  Json& tools = offered.functions;
  for (const Json& tool : tools) check_tool(tool);
  request.calls.texts = std::move(offered.texts);
  const Json choice = plain_choice(wish, tools);
  read_tool_choice(choice, tools, request.calls);
  if (!tools.empty() && choice != Json("none")) (*request.conversation)["tools"] = tools;
  return std::move(offered.warnings);
}

void read_parallel_calls(const Json& value, ApiRequest& request) {
  require<RequestError>(value.is_boolean(), "`parallel_tool_calls`: expected true or false, found {}",
                        value.type_name());
  if (!value.get<bool>()) request.calls.has_one_call = true;
}

// The template interprets the effort. `chat_template_kwargs` are read later and take precedence.
void read_reasoning_effort(const Json& effort, ApiRequest& request) {
  require<RequestError>(effort.is_string(),
                        "`reasoning_effort`: expected a text such as low, medium or high, found {}",
                        effort.dump());
  (*request.conversation)["reasoning_effort"] = effort;
  // Templates without efforts have a switch.
  if (effort == Json("none")) (*request.conversation)["enable_thinking"] = false;
}

void read_prompt(const Json& given, ApiRequest& request) {
  const bool is_list = given.is_array() && !given.empty() && !given.front().is_number();
  require<RequestError>(!is_list || given.size() == 1,
                        "`prompt`: expected one prompt, found {}; write a request for each", given.size());
  // A list of one prompt is equivalent to the prompt.
  const Json& prompt = is_list ? given.front() : given;
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
                          "`chat_template_kwargs`: expected variables that only the chat template uses, "
                          "found `{}`, which is a field of the request; leave it out",
                          name);
    (*request.conversation)[name] = value;
  }
}

// In chats, `logprobs` is a switch and `top_logprobs` the number. In completions, `logprobs` is the number.
void read_logprobs(const Json& body, Form form, ApiRequest& request) {
  const Json wish = body.value("logprobs", Json());
  const Json number = body.value("top_logprobs", Json());
  const auto check_count = [](const Json& count, const char* name) {
    const bool fits = count.is_null() || (count.is_number_integer() && count >= 0 && count <= kMaxLogprobs);
    require<RequestError>(fits, "`{}`: expected a whole number from 0 to {}, found {}", name, kMaxLogprobs,
                          count.dump());
  };
  if (form == Form::text_completion) {
    if (wish == false) return;
    check_count(wish, "logprobs");
    if (!wish.is_null()) request.settings["logprobs"] = wish;
    return;
  }
  require<RequestError>(wish.is_null() || wish.is_boolean(), "`logprobs`: expected true or false, found {}",
                        wish.dump());
  check_count(number, "top_logprobs");
  require<RequestError>(number.is_null() || number == 0 || wish == true,
                        "`top_logprobs` needs \"logprobs\": true");
  if (wish == true) request.settings["logprobs"] = number.is_null() ? Json(0) : number;
}

void read_model(const Json& model, ApiRequest& request) {
  require<RequestError>(model.is_string(), "`model`: expected a name, found {}", model.type_name());
  request.facts.model = model.get<std::string>();
}

// Empty stop texts have no effect, as in llama.cpp. With top_p 0, only the most likely token remains.
Json effective_value(const std::string& name, const Json& value) {
  if (name == "top_p" && value == 0) return 1e-6;
  if (name != "stop" || !(value.is_array() || value == Json(""))) return value;
  Json texts = Json::array();
  for (const Json& text : value) {
    if (text != Json("")) texts.push_back(text);
  }
  return value.is_string() ? Json::array() : texts;
}

// Applies a member other than the prompt and the members for log-probabilities.
void read_member(const std::string& name, const Json& value, ApiRequest& request, UnknownMembers unknown) {
  // LM Studio's clients send -1 for as many tokens as fit, the default of a chat.
  const bool limits_chat = (name == "max_tokens" || name == "max_completion_tokens") &&
                           request.facts.form == Form::chat_completion;
  if (limits_chat && value == -1) return;
  require<RequestError>(!limits_chat || value != 0,
                        "`{}`: expected a whole number from 1, found 0; leave it out for the default", name);
  if (ignored().contains(name) || read_constraint_member(name, value, request)) return;
  if (const std::string setting = setting_of(name); !setting.empty()) {
    request.settings[setting] = effective_value(name, value);
    return;
  }
  const auto refused = unsupported().find(name);
  if (refused == unsupported().end() && unknown == UnknownMembers::ignore) return;
  require<RequestError>(refused != unsupported().end(), "unknown field `{}`; leave it out", name);
  const std::vector<Json>& harmless = refused->second;
  require<RequestError>(std::find(harmless.begin(), harmless.end(), value) != harmless.end(),
                        "`{}` is not supported, found {}; leave it out", name, json_text(value));
}

}  // namespace

std::vector<std::string> read_openai_body(const Json& body, Form form, ApiRequest& request,
                                          UnknownMembers unknown) {
  const bool is_chat = form == Form::chat_completion;
  const std::string prompt = is_chat ? "messages" : "prompt";
  request.facts.form = form;
  std::vector<std::string> warnings;
  require<RequestError>(body.is_object(), "expected an object with `{}`, found {}", prompt, body.type_name());
  refuse_state_elsewhere(body);
  std::set<std::string> read = {prompt, "model", "logprobs"};
  if (is_chat) {
    read.insert({"top_logprobs", "chat_template_kwargs", "tools", "tool_choice", "parallel_tool_calls",
                 "reasoning_effort"});
  }

  const auto member = [&](const std::string& name) { return body.value(name, Json()); };
  if (!member("model").is_null()) read_model(member("model"), request);
  require<RequestError>(!member(prompt).is_null(), "expected `{}`, found none", prompt);
  if (is_chat) {
    request.conversation = Json{{"messages", read_messages(member(prompt))}};
    if (!member("reasoning_effort").is_null()) read_reasoning_effort(member("reasoning_effort"), request);
    if (!member("parallel_tool_calls").is_null()) read_parallel_calls(member("parallel_tool_calls"), request);
    if (!member("chat_template_kwargs").is_null())
      read_template_arguments(member("chat_template_kwargs"), request);
    warnings = read_tools(member("tools"), member("tool_choice"), unknown, request);
  } else {
    read_prompt(member(prompt), request);
    const Json echo = member("echo");
    require<RequestError>(echo.is_null() || echo.is_boolean(), "`echo`: expected true or false, found {}",
                          echo.type_name());
    request.facts.repeats_prompt = !echo.is_null() && echo.get<bool>();
    read.insert("echo");
  }
  read_logprobs(body, form, request);
  for (const auto& [name, value] : body.items()) {
    if (!value.is_null() && !read.contains(name)) read_member(name, value, request, unknown);
  }
  // The newer name wins.
  if (const Json tokens = member("max_completion_tokens"); !tokens.is_null() && tokens != -1)
    request.settings["max_tokens"] = tokens;
  return warnings;
}

void copy_settings(const Json& body, std::initializer_list<std::string_view> except, Json& chat) {
  for (const auto& [name, value] : body.items()) {
    const std::string setting = setting_of(name);
    if (!setting.empty() && std::ranges::find(except, setting) == except.end()) chat[name] = value;
  }
}

}  // namespace tp
