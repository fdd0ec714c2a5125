#pragma once

#include "runtime/api/api_request.h"
#include "runtime/chat/message_reader.h"
#include "tp/event.h"
#include "tp/request.h"

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace tp {

// A token with the requested log-probabilities.
struct ScoredToken {
  TokenLogprob chosen;
  std::vector<TokenLogprob> top;  // most likely first
};

// One continuation of a prompt, so far.
struct Continuation {
  std::string text;           // generated text
  Message message;            // message that the text contains
  MessagePieces news;         // pieces that the last token added
  std::string calls_id;       // name from which the ids of calls follow; empty: they are random
  std::size_t uncounted = 0;  // tokens that may belong to the next piece
  std::size_t reasoning_tokens = 0;
  std::size_t drafted_tokens = 0;  // as in TokenEvent
  std::size_t accepted_tokens = 0;
  std::unique_ptr<MessageReader> reader;  // created at the first token
  std::vector<TokenId> token_ids;
  std::vector<ScoredToken> logprobs;  // one per token, or empty
  // The tokens of each of the message's blocks of text, as indices of `logprobs`; empty without them.
  std::vector<std::vector<std::size_t>> tokens_of_blocks;
  std::vector<std::size_t> text_sizes;  // bytes of the last tokens, which may belong to the next text
  FinishReason finish_reason = FinishReason::none;
  nlohmann::json stop_reason;  // the client's stop text or token id that ended the continuation, else null
  std::string error;           // reason of the failure

  bool finished() const { return finish_reason != FinishReason::none; }
  // Adds the pieces to the message and to `news`.
  void add(MessagePieces pieces);
  // Ends the message, and adds its last pieces.
  void end(Ending ending);
  // OpenAI's name; "tool_calls" if the continuation ended to call tools.
  std::string_view finish_name() const;
};

// The sum of a number of each item.
template <class Items, class Number>
std::size_t sum_of(const Items& items, const Number& number) {
  std::size_t sum = 0;
  for (const auto& item : items) sum += std::invoke(number, item);
  return sum;
}

// Completion::constraint_member of a constraint that the client did not send.
inline constexpr const char* kCallsMember = "tools";

// A request that the engine runs, and its result: n continuations.
struct Completion {
  AnswerFacts facts{};
  Request request{};
  AnswerSyntax syntax{};  // syntax for reading the continuations
  // The client's name for the request's constraint; kCallsMember if the constraint comes from tools; may be
  // empty.
  std::string constraint_member{};
  std::vector<TokenId> asked_stops{};  // the client's own stop_token_ids
  std::size_t cached_tokens = 0;       // prompt tokens found in the prefix cache
  std::size_t restored_tokens = 0;     // prompt tokens read from the store of prompts, and the time this took
  double restore_seconds = 0.0;
  // On request: log-probabilities of the prompt's tokens from the second one on, and the most likely tokens
  // at their places.
  std::vector<double> prompt_logprobs{};
  std::vector<std::vector<TokenLogprob>> prompt_top{};
  std::vector<Continuation> continuations{};

  // The effective settings, in the format of request_fields.h: the client may send them again to get the same
  // text.
  nlohmann::json settings() const;
  // Sums over the continuations.
  std::size_t generated_tokens() const;
  std::size_t sum(std::size_t Continuation::*number) const;
  // Adds an event to its continuation, and returns the continuation.
  Continuation& add(const TokenEvent& event);
  void add(const PromptLogprobs& logprobs);
  bool finished() const;
};

}  // namespace tp
