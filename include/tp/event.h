// What becomes of a request: the events that its sink is given.
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

// The number of a request, unique within an engine.
using RequestId = std::uint64_t;

// When things happened to a request. A time that has not come is the clock's epoch.
struct RequestTimes {
  using Clock = std::chrono::steady_clock;

  Clock::time_point queued{};           // submitted
  Clock::time_point first_scheduled{};  // a step was planned that computes some of it
  Clock::time_point first_token{};
  Clock::time_point finished{};
};

// Log-probabilities of prompt tokens, in the order of the prompt; a long prompt's come in several events.
struct PromptLogprobs {
  RequestId request = 0;
  std::size_t first = 0;         // the token of the prompt that logprobs[0] belongs to
  std::vector<double> logprobs;  // natural logarithms
};

// The logits after consecutive positions of a prompt, in the order of the prompt.
struct PromptLogits {
  RequestId request = 0;
  std::size_t first = 0;          // the position that the first row belongs to
  std::size_t vocab_size = 0;     // columns of a row
  std::span<const float> logits;  // [positions, vocab_size]; valid during the call

  std::size_t positions() const { return logits.size() / vocab_size; }
  std::span<const float> row(std::size_t i) const { return logits.subspan(i * vocab_size, vocab_size); }
};

// The last event of a request is one of these three, and there is exactly one.

// Every continuation has ended, each with its own FinishReason.
struct RequestFinished {
  RequestId request = 0;
  RequestTimes times;
};

// It was cancelled before that.
struct RequestCancelled {
  RequestId request = 0;
  RequestTimes times;
};

// It could not be queued, for want of memory.
struct RequestRejected {
  RequestId request = 0;
  RequestTimes times;
  std::string error;
};

using Event = std::variant<TokenEvent, PromptLogprobs, PromptLogits, RequestFinished, RequestCancelled,
                           RequestRejected>;

// Called for every event of a request, in order, by the thread that steps the engine, between steps. It may
// submit and cancel requests.
using EventSink = std::function<void(const Event&)>;

}  // namespace tp
