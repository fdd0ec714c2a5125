#pragma once

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

namespace tp::reference {

// Returns the logarithms of all tokens' probabilities.
inline std::vector<double> log_softmax(std::span<const float> logits) {
  const double highest = *std::ranges::max_element(logits);
  double sum = 0.0;
  for (const float logit : logits) sum += std::exp(logit - highest);
  std::vector<double> result;
  for (const float logit : logits) result.push_back(logit - highest - std::log(sum));
  return result;
}

}  // namespace tp::reference
