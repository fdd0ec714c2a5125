#pragma once

#include "runtime/chat/message_reader.h"
#include "tp/request.h"

#include <cstddef>
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
  std::size_t uncounted = 0;  // tokens that may belong to the next piece
  std::size_t reasoning_tokens = 0;
  std::size_t drafted_tokens = 0;  // as in TokenEvent
  std::size_t accepted_tokens = 0;
  std::unique_ptr<MessageReader> reader;  // created at the first token
  std::vector<TokenId> token_ids;
  std::vector<ScoredToken> logprobs;  // one per token, or empty
  FinishReason finish_reason = FinishReason::none;
  nlohmann::json stop_reason;  // stop text or token id that ended the continuation, else null
  std::string error;           // reason of the failure

  bool finished() const { return finish_reason != FinishReason::none; }
  // OpenAI's name; "tool_calls" if the continuation ended to call tools.
  std::string_view finish_name() const;
};

// The result of a request: its n continuations.
struct Completion {
  nlohmann::json settings =
      nlohmann::json::object();  // the effective settings, in the format of request_fields.h
  AnswerSyntax syntax{};         // syntax for reading the continuations
  std::size_t prompt_tokens = 0;
  std::size_t cached_tokens = 0;  // prompt tokens found in the prefix cache
  // On request: log-probabilities of the prompt's tokens from the second one on, and the most likely tokens
  // at their places.
  std::vector<double> prompt_logprobs{};
  std::vector<std::vector<TokenLogprob>> prompt_top{};
  std::vector<Continuation> continuations;

  // Adds an event to its continuation, and returns the continuation.
  Continuation& add(const TokenEvent& event);
  bool finished() const;
};

}  // namespace tp
