// How long steps take, and how many tokens of prompts the next one can compute in a given time.
#pragma once

#include <array>
#include <cstddef>

namespace tp {

// The median of the last few values: one slow step does not change it, and a machine that has become slower
// does after three.
class RecentMedian {
 public:
  void add(double value) { values_[count_++ % values_.size()] = value; }
  bool empty() const { return count_ == 0; }
  // 0 without values.
  double value() const;

 private:
  std::array<double, 5> values_{};
  std::size_t count_ = 0;
};

// Tokens per second, in which a step weighs less the longer ago it was.
class RecentRate {
 public:
  void add(std::size_t tokens, double seconds);
  // 0 without steps.
  double per_second() const { return seconds_ > 0.0 ? tokens_ / seconds_ : 0.0; }

 private:
  double tokens_ = 0.0;
  double seconds_ = 0.0;
};

// A step that generates reads all weights, however few tokens it has; tokens of prompts come on top of that.
// So the time of one is what a step with prompts takes longer than one without.
class StepTimes {
 public:
  // A step computes at least as many tokens of prompts as this, if there are any. The time of fewer would say
  // little about more of them.
  static constexpr std::size_t kLeastPromptTokens = 16;

  // A step with this many tokens of prompts, and this many sequences that generated a token. Without a time
  // (0), nothing can be learnt.
  void add(std::size_t prompt_tokens, std::size_t decoding, double seconds);

  // How many tokens of prompts can be expected to add this much time to a step; the least number as long as
  // nothing is known.
  std::size_t prompt_tokens_in(double seconds) const;

  double prefill_tokens_per_second() const { return prefill_.per_second(); }
  double decode_tokens_per_second() const { return decode_.per_second(); }

 private:
  RecentMedian prompt_token_seconds_;
  RecentMedian decode_step_seconds_;  // of steps without prompts
  RecentRate prefill_;
  RecentRate decode_;
};

}  // namespace tp
