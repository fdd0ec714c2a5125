// The endpoints for prompts: tokenization and templates.
#include "model/tokenizer/text/utf8.h"
#include "runtime/api/api_call.h"
#include "runtime/api/begin_completion.h"
#include "runtime/api/prompt_ids.h"
#include "runtime/serve/endpoints.h"
#include "tp/internal/require.h"

#include <string>
#include <vector>

namespace tp::endpoints {
namespace {

using Json = nlohmann::ordered_json;

// The first of these members that is not null.
Json member_of(const Json& body, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (Json value = body.value(name, Json()); !value.is_null()) return value;
  }
  return {};
}

bool flag_of(const Json& body, std::initializer_list<const char*> names, bool otherwise) {
  const Json value = member_of(body, names);
  require<RequestError>(value.is_null() || value.is_boolean(), "`{}`: expected true or false, found {}",
                        *names.begin(), value.type_name());
  return value.is_null() ? otherwise : value.get<bool>();
}

const ChatPrompts& chat_of(const Service& service) {
  require<RequestError>(service.model.chat.has_value(), "{}", service.model.chat_error);
  return *service.model.chat;
}

// llama.cpp's format: a text, or a list of bytes if the token is only part of a character.
Json piece_of(const std::string& bytes) {
  if (utf8::is_valid(bytes)) return bytes;
  return std::vector<unsigned char>(bytes.begin(), bytes.end());
}

std::vector<TokenId> chat_tokens(const Service& service, const ApiCall& call) {
  const ApiRequest& asked = call.prompts.front();
  service.adapter_of(asked.facts.model);  // throws if there is no such model
  const OpenModel& model = service.model;
  return begin_completion(asked, model.defaults, *model.engine, &chat_of(service)).request.prompt;
}

}  // namespace

// Accepts llama.cpp's format, {"content": text}, and vLLM's, {"prompt": text} or {"messages": [...]}.
void tokenize(Service& service, const Exchange& exchange) {
  const Json body = body_of(exchange);
  const Engine& engine = *service.model.engine;
  const bool has_messages = !body.value("messages", Json()).is_null();
  const bool is_vllm = has_messages || !body.value("prompt", Json()).is_null();
  std::vector<TokenId> ids;
  if (has_messages) {
    ids = chat_tokens(service, read_openai_call(body, ApiRequest::Form::chat_completion));
  } else {
    const Json text = member_of(body, {"content", "prompt"});
    require<RequestError>(text.is_string(), "`content`: expected a text, found {}", text.type_name());
    // llama.cpp adds special tokens only on request, vLLM unless the request forbids it.
    ids =
        engine.encode(text.get<std::string>(), flag_of(body, {"add_special", "add_special_tokens"}, is_vllm));
  }
  Json result = {
      {"count", ids.size()}, {"max_model_len", engine.info().options.max_length}, {"tokens", Json::array()}};
  const bool with_pieces = flag_of(body, {"with_pieces"}, false);
  for (const TokenId id : ids) {
    if (with_pieces)
      result["tokens"].push_back({{"id", id}, {"piece", piece_of(engine.bytes_of(id))}});
    else
      result["tokens"].push_back(id);
  }
  service.respond_json(*exchange, 200, result);
}

// Includes the spellings of control tokens, like llama.cpp and vLLM, so that the text can be tokenized again.
void detokenize(Service& service, const Exchange& exchange) {
  const Json body = body_of(exchange);
  const std::string text =
      service.model.engine->decode_with_special(prompt_ids_of(body.value("tokens", Json()), "`tokens`"));
  service.respond_json(*exchange, 200, {{"content", text}, {"prompt", text}});
}

void tokenizer_info(Service& service, const Exchange& exchange) {
  service.respond_json(*exchange, 200, service.model.tokenizer_info);
}

void apply_template(Service& service, const Exchange& exchange) {
  const ApiCall call = read_openai_call(body_of(exchange), ApiRequest::Form::chat_completion);
  service.respond_json(*exchange, 200,
                       {{"prompt", chat_of(service).prompt_of(*call.prompts.front().conversation).text()}});
}

void count_message_tokens(Service& service, const Exchange& exchange) {
  Json body = body_of(exchange);
  body["stream"] = nullptr;
  service.respond_json(*exchange, 200,
                       {{"input_tokens", chat_tokens(service, read_messages_call(body)).size()}});
}

}  // namespace tp::endpoints
