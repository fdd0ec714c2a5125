#include "runtime/text/probabilities.h"

#include <algorithm>
#include <cmath>

namespace tp {

std::vector<double> probabilities_of(const std::vector<float>& scores) {
  if (scores.size() == 1) return {1.0 / (1.0 + std::exp(-static_cast<double>(scores.front())))};
  const double highest = *std::ranges::max_element(scores);
  std::vector<double> probabilities;
  double sum = 0.0;
  for (const float score : scores) sum += probabilities.emplace_back(std::exp(score - highest));
  for (double& probability : probabilities) probability /= sum;
  return probabilities;
}

}  // namespace tp
