// The events that a request sends to its sink.
#pragma once

#include "tp/request.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace tp {

// Identifies a request within an engine.
using RequestId = std::uint64_t;

// Timestamps of a request, and what it read from the store of prompts. A timestamp equals the clock's epoch
// until it is set.
struct RequestTimes {
  using Clock = std::chrono::steady_clock;

  Clock::time_point queued{};           // when the request was submitted
  Clock::time_point first_scheduled{};  // when the first step that includes the request was planned
  Clock::time_point first_token{};
  Clock::time_point finished{};
  std::size_t restored_tokens = 0;  // prompt tokens read from the store, also counted as cached tokens
  double restore_seconds = 0.0;     // time of this reading
};

// Log-probabilities of consecutive prompt tokens. A long prompt produces several of these events.
struct PromptLogprobs {
  RequestId request = 0;
  std::size_t first = 0;         // position of the first token
  std::vector<double> logprobs;  // natural logarithms
  // The Request::score_top most likely tokens at each of these positions, most likely first. Empty if
  // score_top is 0.
  std::vector<std::vector<TokenLogprob>> top{};
};

// The logits at consecutive positions of a prompt.
struct PromptLogits {
  RequestId request = 0;
  std::size_t first = 0;          // position of the first row
  std::size_t vocab_size = 0;     // floats per row
  std::span<const float> logits;  // [positions, vocab_size]; valid only during the call

  std::size_t positions() const { return logits.size() / vocab_size; }
  std::span<const float> row(std::size_t i) const { return logits.subspan(i * vocab_size, vocab_size); }
};

// The hidden states at consecutive positions of a prompt, after the final norm.
struct PromptHidden {
  RequestId request = 0;
  std::size_t first = 0;          // position of the first row
  std::size_t hidden_size = 0;    // floats per row
  std::span<const float> states;  // [positions, hidden_size]; valid only during the call

  std::size_t positions() const { return states.size() / hidden_size; }
  std::span<const float> row(std::size_t i) const { return states.subspan(i * hidden_size, hidden_size); }
};

// One hidden state that represents the whole prompt (Request::pooling), or the states at some of its
// positions (Request::states_at).
struct PooledHidden {
  RequestId request = 0;
  std::vector<float> state;  // [hidden_size], or [states_at, hidden_size]
};

// The most likely tokens at one position of the prompt, most likely first. Empty if the logits are not
// finite.
struct PromptCandidates {
  RequestId request = 0;
  std::size_t position = 0;
  std::vector<TokenLogprob> best;
};

// Results of Request::proposal at consecutive positions of the prompt.
struct PromptProposals {
  RequestId request = 0;
  std::size_t first = 0;  // position of proposals[0]
  std::vector<Proposal> proposals;
};

// Tokens unmasked by one pass of a diffusion language model, in order of position.
struct TokensUnmasked {
  RequestId request = 0;
  int sample = 0;        // index among the request's n continuations
  std::size_t pass = 0;  // pass number, starting at 1
  std::vector<UnmaskedToken> tokens;
};

// Progress on a prompt. If Request::report_progress is set, each step that computes part of the prompt sends
// this event. The last of these events precedes the continuation's first token.
struct PrefillProgress {
  RequestId request = 0;
  int sample = 0;             // index among the request's n continuations
  std::size_t total = 0;      // tokens of the prompt
  std::size_t cached = 0;     // tokens of the prompt found in the prefix cache
  std::size_t processed = 0;  // prompt tokens in the KV cache, including `cached`; drops after a preemption
};

// The last event of every request is one of the following three.

// Every continuation has finished, each with its own FinishReason.
struct RequestFinished {
  RequestId request = 0;
  RequestTimes times;
  std::size_t cached_tokens = 0;  // prompt tokens that the first continuation found in the prefix cache
};

// The request was cancelled before all continuations had finished.
struct RequestCancelled {
  RequestId request = 0;
  RequestTimes times;
  std::size_t cached_tokens = 0;  // as in RequestFinished
};

// There was not enough memory to queue the request.
struct RequestRejected {
  RequestId request = 0;
  RequestTimes times;
  std::string error;
};

using Event = std::variant<TokenEvent, PromptLogprobs, PromptLogits, PromptHidden, PooledHidden,
                           PromptCandidates, PromptProposals, TokensUnmasked, PrefillProgress,
                           RequestFinished, RequestCancelled, RequestRejected>;

// Receives all events of a request in order, between steps, on the thread that runs the engine's steps. A
// sink may submit and cancel requests.
using EventSink = std::function<void(const Event&)>;

}  // namespace tp
