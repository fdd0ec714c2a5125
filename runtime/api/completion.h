#pragma once

#include "tp/request.h"

#include <cstddef>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace tp {

// A token with the log-probabilities that were asked for.
struct ScoredToken {
  TokenLogprob chosen;
  std::vector<TokenLogprob> top;  // the most likely first
};

// One continuation of a prompt, as far as it has got.
struct Continuation {
  std::string text;
  std::vector<TokenId> token_ids;
  std::vector<ScoredToken> logprobs;  // of every token, or none
  FinishReason finish_reason = FinishReason::none;
  nlohmann::json stop_reason;  // the stop text or token id of the request that ended it; null: none did
  std::string error;           // why it cannot go on

  bool finished() const { return finish_reason != FinishReason::none; }
};

// What has come of a request: its n continuations.
struct Completion {
  nlohmann::json settings =
      nlohmann::json::object();  // in force, as members of a request: see request_fields.h
  std::size_t prompt_tokens = 0;
  std::size_t cached_tokens = 0;  // of the prompt: those that needed no work
  std::vector<Continuation> continuations;

  // Adds what a step has given to the event's continuation, and returns that.
  Continuation& add(const TokenEvent& event);
  bool finished() const;
};

}  // namespace tp
