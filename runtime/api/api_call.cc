#include "runtime/api/api_call.h"

#include "model/files/json_fault.h"
#include "runtime/api/api_error.h"
#include "runtime/api/openai_request.h"
#include "runtime/chat/bounded_json.h"
#include "runtime/chat/json_members.h"
#include "tp/internal/require.h"
#include "tp/request.h"

#include <cstddef>
#include <limits>
#include <string>
#include <utility>

namespace tp {
namespace {

using Json = nlohmann::ordered_json;
using Form = ApiRequest::Form;

constexpr std::size_t kMaxPrompts = 2048;

void check_limits(std::string_view text) {
  const JsonExcess excess = BoundedJson().admit(text);
  require<RequestError>(excess != JsonExcess::depth, "the body is nested more than {} levels deep",
                        kMaxJsonDepth);
  require<RequestError>(excess != JsonExcess::members, "the body's objects have too many members");
}

// Removes and returns a member; null if it is absent.
Json take(Json& body, const char* name) {
  Json value = body.value(name, Json());
  body.erase(name);
  return value;
}

bool take_flag(Json& body, const char* name) {
  const Json value = take(body, name);
  require<RequestError>(value.is_null() || value.is_boolean(), "`{}`: expected true or false, found {}", name,
                        value.type_name());
  return !value.is_null() && value.get<bool>();
}

int take_count(Json& body, const char* name, int otherwise) {
  const Json value = take(body, name);
  if (value.is_null()) return otherwise;
  const bool fits = value.is_number_integer() && value >= 0 && value <= std::numeric_limits<int>::max();
  require<RequestError>(fits, "`{}`: expected a whole number, not negative, found {}", name, value.dump());
  return value.get<int>();
}

void read_stream_options(Json& body, ApiCall& call) {
  call.stream = take_flag(body, "stream");
  Json options = take(body, "stream_options");
  require<RequestError>(options.is_null() || options.is_object(),
                        "`stream_options`: expected an object, found {}", options.type_name());
  if (options.is_object()) call.include_usage = take_flag(options, "include_usage");
}

// Reads one prompt or a list of prompts. A prompt of ids is itself a list.
std::vector<Json> take_prompts(Json& body) {
  Json prompt = take(body, "prompt");
  const bool is_list = prompt.is_array() && !prompt.empty() && !prompt.front().is_number();
  if (!is_list) return {std::move(prompt)};
  require<RequestError>(prompt.size() <= kMaxPrompts, "`prompt`: expected at most {} prompts, found {}",
                        kMaxPrompts, prompt.size());
  for (const Json& one : prompt) {
    const bool is_prompt = one.is_string() || (one.is_array() && (one.empty() || one.front().is_number()));
    require<RequestError>(is_prompt, "`prompt`: expected texts or lists of token ids, found {}",
                          shown_part(one));
  }
  return {prompt.begin(), prompt.end()};
}

// Each prompt's request gets its own copy of the other members.
void check_repeated(const Json& body, std::size_t prompts) {
  constexpr std::size_t kMaxBytes = std::size_t{64} << 20;
  if (prompts == 1) return;
  const std::size_t bytes = body.dump().size();
  require<RequestError>(
      bytes * prompts <= kMaxBytes,
      "`prompt`: expected at most {} prompts with {} bytes of other members, found {}; send "
      "them in several calls",
      kMaxBytes / bytes, bytes, prompts);
}

// Each prompt's request turns the texts into tokens.
void check_bad_words(const Json& body, std::size_t prompts) {
  constexpr std::size_t kMaxWords = 8192;
  const auto words = body.find("bad_words");
  if (prompts == 1 || words == body.end() || !words->is_array()) return;
  require<RequestError>(
      words->size() * prompts <= kMaxWords,
      "`bad_words`: expected at most {} texts for {} prompts, found {}; send the prompts in "
      "several calls",
      kMaxWords / prompts, prompts, words->size());
}

void read_best_of(Json& body, ApiCall& call) {
  call.best_of = take_count(body, "best_of", 0);
  if (call.best_of == 0) return;
  const Json n = body.value("n", Json());
  const bool is_count = n.is_null() || (n.is_number_integer() && n >= 1 && n <= kMaxSamples);
  require<RequestError>(is_count, "`n`: expected a whole number from 1 to {}, found {}", kMaxSamples,
                        n.dump());
  call.n = n.is_null() ? 1 : n.get<int>();
  require<RequestError>(call.best_of >= call.n, "`best_of`: expected at least `n`, which is {}, found {}",
                        call.n, call.best_of);
  if (call.best_of == call.n) call.best_of = 0;
  call.hides_logprobs = body.value("logprobs", Json()).is_null();
  require<RequestError>(
      call.best_of == 0 || !call.stream,
      "`best_of` larger than `n` cannot be streamed, because the best is known only at the end");
}

}  // namespace

Json parse_body(std::string_view text) {
  check_limits(text);
  Json body;
  try {
    body = Json::parse(text);
  } catch (const Json::exception& error) {
    throw ApiException({.status = 400,
                        .message = fmt::format("the body is not JSON: {}", json_fault(error)),
                        .code = "invalid_json"});
  }
  require<RequestError>(body.is_object(), "expected a JSON object as the body, found {}", body.type_name());
  return body;
}

ApiCall read_openai_call(Json body, Form form) {
  ApiCall call;
  read_stream_options(body, call);
  call.return_progress = take_flag(body, "return_progress");
  call.return_token_ids = take_flag(body, "return_token_ids");
  if (form == Form::chat_completion) {
    ApiRequest& request = call.prompts.emplace_back();
    Json conversation = Json::object();
    for (const char* name : {"add_generation_prompt", "continue_final_message"}) {
      if (body.contains(name) && !body.at(name).is_null()) conversation[name] = take_flag(body, name);
    }
    call.warnings = read_openai_body(body, form, request, UnknownMembers::ignore);
    request.conversation->update(conversation);
    return call;
  }
  call.usual_max_tokens = 16;  // OpenAI's default
  read_best_of(body, call);
  std::vector<Json> prompts = take_prompts(body);
  check_repeated(body, prompts.size());
  check_bad_words(body, prompts.size());
  for (Json& prompt : prompts) {
    body["prompt"] = std::move(prompt);
    ApiRequest& request = call.prompts.emplace_back();
    read_openai_body(body, form, request, UnknownMembers::ignore);
    if (call.best_of != 0) request.settings["n"] = call.best_of;
  }
  return call;
}

ApiCall read_converted_chat(Json chat, MemberNames names) {
  try {
    ApiCall call = read_openai_call(std::move(chat), Form::chat_completion);
    call.names = names;
    return call;
  } catch (const RequestError& error) {
    throw ApiException(renamed(api_error_of(error), names));
  }
}

}  // namespace tp
