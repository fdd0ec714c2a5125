#include "runtime/api/completion.h"

#include "runtime/api/request_fields.h"
#include "runtime/chat/message.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

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

// The bytes of text at the end of the news.
std::size_t text_at_end(const MessagePieces& news) {
  std::size_t bytes = 0;
  for (auto piece = news.rbegin(); piece != news.rend() && piece->kind == MessagePiece::Kind::text; ++piece)
    bytes += piece->text.size();
  return bytes;
}

// Assigns the last tokens to the block whose text they added. The reader holds back tokens that may begin a
// marker. If they were a marker, the text that follows is too short for them.
void assign_tokens(const TokenEvent& event, Continuation& continuation) {
  std::size_t end = continuation.logprobs.size();
  if (event.finish_reason == FinishReason::stop && event.text.empty())
    --end;  // a control token
  else
    continuation.text_sizes.push_back(event.text.size());
  if (continuation.news.empty()) return;
  const std::vector<std::size_t> sizes = std::exchange(continuation.text_sizes, {});
  std::size_t room = text_at_end(continuation.news);
  if (room == 0) return;
  std::size_t begin = end;
  for (auto size = sizes.rbegin(); size != sizes.rend() && (begin == end || *size <= room); ++size) {
    room -= std::min(room, *size);
    --begin;
  }
  continuation.tokens_of_blocks.resize(continuation.message.blocks.size());
  for (std::size_t i = begin; i < end; ++i) continuation.tokens_of_blocks.back().push_back(i);
}

// Reads the part of the message that a token adds.
void read_message(const AnswerSyntax& syntax, const TokenEvent& event, Continuation& continuation) {
  if (!continuation.reader) continuation.reader = make_message_reader(syntax);
  continuation.news.clear();
  continuation.add(continuation.reader->push(event.text));
  if (continuation.finished())
    continuation.end(continuation.finish_reason == FinishReason::stop ? Ending::complete : Ending::cut);
  count_reasoning(continuation);
}

}  // namespace

void Continuation::add(MessagePieces pieces) {
  for (MessagePiece& piece : pieces) {
    if (piece.kind == MessagePiece::Kind::call && piece.id.empty() && !calls_id.empty())
      piece.id = call_id_from(fmt::format("{}/{}", calls_id, message.calls.size()));
    message.add(piece);
    news.push_back(std::move(piece));
  }
}

void Continuation::end(Ending ending) {
  if (reader) add(reader->finish(ending));
}

std::string_view Continuation::finish_name() const {
  const bool calls =
      finish_reason == FinishReason::stop && std::ranges::any_of(message.calls, &ToolCall::is_complete);
  return calls ? "tool_calls" : name_of(finish_reason);
}

nlohmann::json Completion::settings() const {
  nlohmann::json settings = fields_of(request);
  if (constraint_member == kCallsMember) settings.erase("grammar");
  return settings;
}

std::size_t Completion::generated_tokens() const {
  return sum_of(continuations,
                [](const Continuation& continuation) { return continuation.token_ids.size(); });
}

std::size_t Completion::sum(std::size_t Continuation::*number) const { return sum_of(continuations, number); }

Continuation& Completion::add(const TokenEvent& event) {
  Continuation& continuation = continuations.at(static_cast<std::size_t>(event.sample));
  continuation.finish_reason = event.finish_reason;
  continuation.error = event.error;
  continuation.drafted_tokens = event.drafted_tokens;
  continuation.accepted_tokens = event.accepted_tokens;
  if (event.finish_reason == FinishReason::error) return continuation;  // an error has no token
  if (event.sample == 0)
    cached_tokens = event.cached_tokens;  // the other samples always find the primary's prompt
  restored_tokens = event.restored_tokens;
  restore_seconds = event.restore_seconds;
  continuation.text += event.text;
  continuation.token_ids.push_back(event.token);
  read_message(syntax, event, continuation);
  const auto* const id = std::get_if<TokenId>(&event.matched_stop);
  if (id != nullptr && std::ranges::find(asked_stops, *id) != asked_stops.end())
    continuation.stop_reason = *id;
  if (const auto* text = std::get_if<std::string>(&event.matched_stop)) continuation.stop_reason = *text;
  if (event.logprob) {
    continuation.logprobs.push_back({*event.logprob, event.top_logprobs});
    assign_tokens(event, continuation);
  }
  return continuation;
}

void Completion::add(const PromptLogprobs& logprobs) {
  prompt_logprobs.insert(prompt_logprobs.end(), logprobs.logprobs.begin(), logprobs.logprobs.end());
  prompt_top.insert(prompt_top.end(), logprobs.top.begin(), logprobs.top.end());
}

bool Completion::finished() const {
  return std::all_of(continuations.begin(), continuations.end(),
                     [](const Continuation& continuation) { return continuation.finished(); });
}

}  // namespace tp
