// An indexer's scores and choice by their formulas.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

namespace tp::reference {

// Returns the sum over heads of weight * max(0, query . key). query: [heads * dim], weight: [heads], key:
// [dim].
inline double index_score(std::span<const float> query, std::span<const float> weight,
                          std::span<const float> key) {
  double score = 0.0;
  for (std::size_t head = 0; head < weight.size(); ++head) {
    double product = 0.0;
    for (std::size_t d = 0; d < key.size(); ++d)
      product += static_cast<double>(query[head * key.size() + d]) * key[d];
    score += weight[head] * std::max(0.0, product);
  }
  return score;
}

// Returns the positions of the `count` highest scores, ascending. Among equal scores, earlier positions win.
template <class Score>
std::vector<std::int32_t> highest(std::span<const Score> scores, std::size_t count) {
  std::vector<std::int32_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](std::int32_t one, std::int32_t other) {
    return scores[static_cast<std::size_t>(one)] > scores[static_cast<std::size_t>(other)];
  });
  order.resize(count);
  std::ranges::sort(order);
  return order;
}

}  // namespace tp::reference
