#include "launch/chat/engine_backend.h"

#include "runtime/api/begin_completion.h"
#include "tp/internal/require.h"

#include <utility>

#include <nlohmann/json.hpp>

namespace tp {

EngineBackend::EngineBackend(Engine& engine, ChatTemplate chat_template, SamplingFlags sampling)
    : engine_(engine), prompts_(engine, std::move(chat_template)), sampling_(std::move(sampling)) {
  prompts_.require_thinking(sampling_.max_thinking_tokens.has_value());
}

ChatAnswer EngineBackend::answer(const nlohmann::ordered_json& conversation, const ChatListener& listener) {
  MarkedText prompt = prompts_.prompt_of(conversation);
  Completion completion{.request = sampling_.make_request(engine_.info().default_sampling)};
  Request& request = completion.request;
  request.prompt = encode(prompt);
  require<RequestError>(
      request.prompt.size() < max_length(),
      "the conversation has {} tokens, but the model's context holds {}; /reset begins a new one",
      request.prompt.size(), max_length());
  if (request.max_tokens_is_default)
    request.max_tokens = default_max_tokens(engine_.info(), request, request.max_tokens);
  completion.syntax = prompts_.complete(conversation, prompt, {}, request);
  ChatAnswer answer = stream(completion, listener);
  remember(std::move(prompt), completion);
  return answer;
}

ChatAnswer EngineBackend::stream(Completion& completion, const ChatListener& listener) {
  Continuation& continuation = completion.continuations.emplace_back();
  const RequestId id = engine_.submit(completion.request);
  while (engine_.has_work()) {
    for (const TokenEvent& event : engine_.step()) {
      completion.add(event);
      require<RequestError>(event.finish_reason != FinishReason::error, "{}", event.error);
      listener.write(continuation.news);
    }
    if (engine_.has_work() && listener.stops()) {
      engine_.cancel(id);
      continuation.finish_reason = FinishReason::cancelled;
    }
  }
  if (continuation.finish_reason == FinishReason::cancelled) {
    continuation.news.clear();
    continuation.end(Ending::cut);
    listener.write(continuation.news);
  }
  return {.message = std::move(continuation.message),
          .reason = continuation.finish_reason,
          .max_tokens = static_cast<std::size_t>(completion.request.max_tokens),
          .usage = ChatUsage{.prompt_tokens = completion.request.prompt.size(),
                             .cached_tokens = completion.cached_tokens,
                             .tokens = continuation.token_ids.size()}};
}

std::vector<TokenId> EngineBackend::encode(const MarkedText& text) const {
  // The comparison includes the marks of user input. Otherwise a message could repeat an earlier turn with
  // its control tokens.
  if (!said_.empty() && text.size() >= said_.size() && text.substr(0, said_.size()) == said_) {
    // A control token ends the text, so no token can span its end.
    const std::vector<TokenId> rest = engine_.encode(text.substr(said_.size()));
    if (!rest.empty() && engine_.is_special(rest.front())) {
      std::vector<TokenId> ids = said_ids_;
      ids.insert(ids.end(), rest.begin(), rest.end());
      return ids;
    }
  }
  return engine_.encode(text);
}

void EngineBackend::remember(MarkedText prompt, const Completion& completion) {
  said_ = {};
  const Continuation& answer = completion.continuations.front();
  // Stop texts leave tokens whose text was not printed.
  const bool has_stop_texts = !sampling_.stop.empty() || !engine_.info().generation.stop.empty();
  if (answer.finish_reason == FinishReason::cancelled || has_stop_texts) return;
  said_ = std::move(prompt);
  said_.append_input(answer.text);
  said_ids_ = completion.request.prompt;
  said_ids_.insert(said_ids_.end(), answer.token_ids.begin(), answer.token_ids.end());
  if (answer.finish_reason == FinishReason::stop) said_ids_.pop_back();  // the template writes the end token
}

}  // namespace tp
