#include "runtime/protocol/step_times.h"

#include <algorithm>
#include <vector>

namespace tp {

double RecentMedian::value() const {
  if (empty()) return 0.0;
  const std::size_t size = std::min(count_, values_.size());
  std::vector<double> sorted(values_.begin(), values_.begin() + static_cast<std::ptrdiff_t>(size));
  std::ranges::sort(sorted);
  return sorted[(size - 1) / 2];
}

void RecentRate::add(std::size_t tokens, double seconds) {
  constexpr double kKept = 0.9;
  tokens_ = kKept * tokens_ + static_cast<double>(tokens);
  seconds_ = kKept * seconds_ + seconds;
}

void StepTimes::add(std::size_t prompt_tokens, std::size_t decoding, double seconds) {
  if (seconds <= 0.0) return;
  if (prompt_tokens > 0) prefill_.add(prompt_tokens, seconds);
  if (decoding > 0) decode_.add(decoding, seconds);
  if (prompt_tokens == 0) {
    decode_step_seconds_.add(seconds);
  } else if (prompt_tokens >= kMinPromptTokens) {
    // At least a tenth of the step, because generating may have been measured with more sequences.
    const double generating = decoding > 0 ? decode_step_seconds_.value() : 0.0;
    const double computing = std::max(seconds - generating, seconds / 10.0);
    prompt_token_seconds_.add(computing / static_cast<double>(prompt_tokens));
  }
}

std::size_t StepTimes::prompt_tokens_in(std::chrono::duration<double> time) const {
  if (prompt_token_seconds_.empty()) return kMinPromptTokens;
  constexpr double kMax = 1e9;  // keeps the quotient in the range of a number of tokens
  const double tokens = std::min(time.count() / prompt_token_seconds_.value(), kMax);
  return std::max(static_cast<std::size_t>(tokens), kMinPromptTokens);
}

}  // namespace tp
