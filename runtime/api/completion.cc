#include "runtime/api/completion.h"

#include <algorithm>

namespace tp {

Continuation& Completion::add(const TokenEvent& event) {
  Continuation& continuation = continuations.at(static_cast<std::size_t>(event.sample));
  continuation.finish_reason = event.finish_reason;
  continuation.error = event.error;
  if (event.finish_reason == FinishReason::error) return continuation;  // it has no token
  if (event.sample == 0)
    cached_tokens = event.cached_tokens;  // the other samples always find the primary's prompt
  continuation.text += event.text;
  continuation.token_ids.push_back(event.token);
  if (const auto* id = std::get_if<TokenId>(&event.matched_stop)) continuation.stop_reason = *id;
  if (const auto* text = std::get_if<std::string>(&event.matched_stop)) continuation.stop_reason = *text;
  if (event.logprob) continuation.logprobs.push_back({*event.logprob, event.top_logprobs});
  return continuation;
}

bool Completion::finished() const {
  return std::all_of(continuations.begin(), continuations.end(),
                     [](const Continuation& continuation) { return continuation.finished(); });
}

}  // namespace tp
