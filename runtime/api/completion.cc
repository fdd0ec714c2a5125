#include "runtime/api/completion.h"

#include <algorithm>
#include <iterator>

namespace tp {
namespace {

// A token without a piece counts toward the next piece: it is part of a marker, or white space that is held
// back.
void count_reasoning(Continuation& continuation) {
  ++continuation.uncounted;
  if (continuation.news.empty()) return;
  if (continuation.news.front().kind == MessagePiece::Kind::reasoning)
    continuation.reasoning_tokens += continuation.uncounted;
  continuation.uncounted = 0;
}

// Reads the part of the message that a token adds.
void read_message(const AnswerSyntax& syntax, const TokenEvent& event, Continuation& continuation) {
  if (!continuation.reader) continuation.reader = make_message_reader(syntax);
  continuation.news = continuation.reader->push(event.text);
  if (continuation.finished()) {
    const bool has_ended = continuation.finish_reason == FinishReason::stop;
    MessagePieces last = continuation.reader->finish(has_ended ? Ending::complete : Ending::cut);
    std::ranges::move(last, std::back_inserter(continuation.news));
  }
  for (MessagePiece& piece : continuation.news) continuation.message.add(piece);
  count_reasoning(continuation);
}

}  // namespace

std::string_view Continuation::finish_name() const {
  const bool calls =
      finish_reason == FinishReason::stop && std::ranges::any_of(message.calls, &ToolCall::is_complete);
  return calls ? "tool_calls" : name_of(finish_reason);
}

Continuation& Completion::add(const TokenEvent& event) {
  Continuation& continuation = continuations.at(static_cast<std::size_t>(event.sample));
  continuation.finish_reason = event.finish_reason;
  continuation.error = event.error;
  continuation.drafted_tokens = event.drafted_tokens;
  continuation.accepted_tokens = event.accepted_tokens;
  if (event.finish_reason == FinishReason::error) return continuation;  // an error has no token
  if (event.sample == 0)
    cached_tokens = event.cached_tokens;  // the other samples always find the primary's prompt
  continuation.text += event.text;
  continuation.token_ids.push_back(event.token);
  read_message(syntax, event, continuation);
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
