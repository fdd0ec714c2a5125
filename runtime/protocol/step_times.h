// Measures how long steps take, and predicts how many prompt tokens the next step can compute in a given
// time.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>

namespace tp {

// The median of the last five values. A single slow step does not change it; a slower machine does after
// three steps.
class RecentMedian {
 public:
  void add(double value) { values_[count_++ % values_.size()] = value; }
  bool empty() const { return count_ == 0; }
  // 0 if there are no values.
  double value() const;

 private:
  std::array<double, 5> values_{};
  std::size_t count_ = 0;
};

// Tokens per second. Older steps weigh less.
class RecentRate {
 public:
  void add(std::size_t tokens, double seconds);
  // 0 if there are no steps.
  double per_second() const { return seconds_ > 0.0 ? tokens_ / seconds_ : 0.0; }

 private:
  double tokens_ = 0.0;
  double seconds_ = 0.0;
};

// A step that generates reads all weights, even for few tokens, and prompt tokens add to its time. So the
// time of a prompt token is measured as the time that prompts add to a step.
class StepTimes {
 public:
  // A step computes at least this many prompt tokens, if enough are waiting. The time of fewer tokens would
  // not predict the time of many.
  static constexpr std::size_t kMinPromptTokens = 16;

  // Adds a step with this many prompt tokens, and this many sequences that generated a token. Ignores a step
  // that took no time (0).
  void add(std::size_t prompt_tokens, std::size_t decoding, double seconds);

  // The number of prompt tokens expected to add this much time to a step; kMinPromptTokens until a step
  // with prompts was measured.
  std::size_t prompt_tokens_in(std::chrono::duration<double> time) const;

  double prefill_tokens_per_second() const { return prefill_.per_second(); }
  double decode_tokens_per_second() const { return decode_.per_second(); }

 private:
  RecentMedian prompt_token_seconds_;
  RecentMedian decode_step_seconds_;  // times of steps without prompts
  RecentRate prefill_;
  RecentRate decode_;
};

}  // namespace tp
