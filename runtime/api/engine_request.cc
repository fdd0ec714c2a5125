#include "runtime/api/engine_request.h"

#include "runtime/api/request_fields.h"
#include "tp/internal/require.h"

namespace tp {
namespace {

// Tokenizing megabytes takes seconds, so what must be too long is not tried.
void require_short(std::size_t bytes, const Engine& engine) {
  constexpr std::size_t kMaxTokenBytes = 512;
  const std::size_t longest = engine.info().max_length * kMaxTokenBytes;
  require<TooLongError>(
      bytes <= longest,
      "prompt has {} bytes but a sequence has at most {} tokens (max_position_embeddings, or "
      "`max_length`); shorten the prompt",
      bytes, engine.info().max_length);
}

}  // namespace

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
    const MarkedText text = chat->prompt_of(*asked.conversation);
    require_short(text.size(), engine);
    request.prompt = engine.encode(text);
    const std::vector<TokenId>& ends = chat->stop_ids();
    request.stop_token_ids.insert(request.stop_token_ids.end(), ends.begin(), ends.end());
  } else {
    require_short(asked.text.size(), engine);
    request.prompt = asked.ids ? *asked.ids : engine.encode(asked.text);
  }
  return request;
}

}  // namespace tp
