#pragma once

#include "tp/request.h"

#include <cstddef>
#include <string>
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
  std::string text;
  std::vector<TokenId> token_ids;
  std::vector<ScoredToken> logprobs;  // one per token, or empty
  FinishReason finish_reason = FinishReason::none;
  nlohmann::json stop_reason;  // the stop text or token id that ended it, else null
  std::string error;           // why it failed

  bool finished() const { return finish_reason != FinishReason::none; }
};

// The result of a request: its n continuations.
struct Completion {
  nlohmann::json settings =
      nlohmann::json::object();  // the effective settings, in the format of request_fields.h
  std::size_t prompt_tokens = 0;
  std::size_t cached_tokens = 0;  // prompt tokens found in the prefix cache
  // If asked for: of the prompt's tokens from the second one on, and the most likely tokens at their places.
  std::vector<double> prompt_logprobs{};
  std::vector<std::vector<TokenLogprob>> prompt_top{};
  std::vector<Continuation> continuations;

  // Adds an event to its continuation, and returns the continuation.
  Continuation& add(const TokenEvent& event);
  bool finished() const;
};

}  // namespace tp
