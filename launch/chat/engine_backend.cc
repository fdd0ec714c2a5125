#include "launch/chat/engine_backend.h"

#include "runtime/api/engine_request.h"
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
  Request request = sampling_.make_request(engine_.info().default_sampling);
  request.prompt = encode(prompt);
  if (request.max_tokens_is_default)
    request.max_tokens = default_max_tokens(engine_.info(), request, request.max_tokens);
  std::vector<TokenId> ids = request.prompt;
  require<RequestError>(
      ids.size() < max_length(),
      "the conversation has {} tokens, but the model's context holds {}; /reset begins a new one", ids.size(),
      max_length());
  const auto reader = make_message_reader(prompts_.complete(conversation, prompt, {}, request));
  std::string text;
  ChatAnswer answer = stream(std::move(request), *reader, listener, ids, text);
  remember(std::move(prompt), std::move(ids), answer, text);
  return answer;
}

ChatAnswer EngineBackend::stream(Request request, MessageReader& reader, const ChatListener& listener,
                                 std::vector<TokenId>& ids, std::string& text) {
  ChatAnswer answer;
  answer.max_tokens = static_cast<std::size_t>(request.max_tokens);
  const auto pass = [&](MessagePieces pieces) {
    for (MessagePiece& piece : pieces) answer.message.add(piece);
    listener.write(pieces);
  };
  ChatUsage& usage = answer.usage.emplace();
  usage.prompt_tokens = request.prompt.size();
  const RequestId id = engine_.submit(std::move(request));
  while (engine_.has_work()) {
    for (const TokenEvent& event : engine_.step()) {
      require<RequestError>(event.finish_reason != FinishReason::error, "{}", event.error);
      pass(reader.push(event.text));
      text += event.text;
      ids.push_back(event.token);
      usage.cached_tokens = event.cached_tokens;
      ++usage.tokens;
      answer.reason = event.finish_reason;
    }
    if (engine_.has_work() && listener.stops()) {
      engine_.cancel(id);
      answer.reason = FinishReason::cancelled;
    }
  }
  pass(reader.finish(answer.reason == FinishReason::stop ? Ending::complete : Ending::cut));
  return answer;
}

std::vector<TokenId> EngineBackend::encode(const MarkedText& text) const {
  // What is input must be the same, too, or a message could repeat an earlier turn with its control tokens.
  if (!said_.empty() && text.size() >= said_.size() && text.substr(0, said_.size()) == said_) {
    // A control token ends the text, so that no token can span its end.
    const std::vector<TokenId> rest = engine_.encode(text.substr(said_.size()));
    if (!rest.empty() && engine_.is_special(rest.front())) {
      std::vector<TokenId> ids = said_ids_;
      ids.insert(ids.end(), rest.begin(), rest.end());
      return ids;
    }
  }
  return engine_.encode(text);
}

void EngineBackend::remember(MarkedText prompt, std::vector<TokenId> ids, const ChatAnswer& answer,
                             const std::string& text) {
  said_ = {};
  // These leave tokens whose text was not printed.
  const bool has_stop_texts = !sampling_.stop.empty() || !engine_.info().generation.stop.empty();
  if (answer.reason == FinishReason::cancelled || has_stop_texts) return;
  said_ = std::move(prompt);
  said_.append_input(text);
  if (answer.reason == FinishReason::stop) ids.pop_back();  // the template writes it
  said_ids_ = std::move(ids);
}

}  // namespace tp
