#include "runtime/api/engine_request.h"

#include "runtime/api/request_fields.h"
#include "tp/internal/require.h"

namespace tp {

Request make_engine_request(const ApiRequest& asked, Request defaults, const Engine& engine,
                            const ChatPrompts* chat) {
  require<RequestError>(asked.error.empty(), "{}", asked.error);
  require<RequestError>(
      asked.form == ApiRequest::Form::line || engine.has_tokenizer(),
      "answers in OpenAI's form are texts, but the model has no tokenizer; give token ids in `ids`");
  Request request = std::move(defaults);
  set_fields(asked.settings, request);
  // The response contains the seed, so that every result can be reproduced.
  if (!request.sampling.seed && !request.sampling.greedy()) request.sampling.seed = draw_seed();
  if (asked.conversation) {
    require<RequestError>(chat != nullptr, "cannot make a prompt of `messages`: there is no chat template");
    request.prompt = engine.encode(chat->prompt_of(*asked.conversation));
    const std::vector<TokenId>& ends = chat->stop_ids();
    request.stop_token_ids.insert(request.stop_token_ids.end(), ends.begin(), ends.end());
  } else {
    request.prompt = asked.ids ? *asked.ids : engine.encode(asked.text);
  }
  return request;
}

}  // namespace tp
