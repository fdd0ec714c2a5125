// A reference sampler that is as plain as possible: whole vocabulary, double precision, one sort.
#pragma once

#include "tp/request.h"
#include "tp/token_id.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <vector>

namespace tp::testing {

struct SamplingCase {
  std::vector<float> logits;  // [vocab_size]
  std::vector<TokenId> prompt;
  std::vector<TokenId> generated;
  SamplingParams params;
};

inline std::vector<double> penalised_logits(const SamplingCase& c) {
  std::vector<double> logits(c.logits.begin(), c.logits.end());
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    const auto in_prompt = std::count(c.prompt.begin(), c.prompt.end(), id);
    const auto in_generated = std::count(c.generated.begin(), c.generated.end(), id);
    const double penalty = c.params.repetition_penalty;
    if (in_prompt + in_generated > 0) logits[i] = logits[i] > 0 ? logits[i] / penalty : logits[i] * penalty;
    if (in_generated > 0) logits[i] -= c.params.presence_penalty;
    logits[i] -= static_cast<double>(c.params.frequency_penalty) * static_cast<double>(in_generated);
  }
  return logits;
}

// Returns the probability of every token to be chosen.
inline std::vector<double> reference_probabilities(const SamplingCase& c) {
  const std::vector<double> logits = penalised_logits(c);
  std::vector<std::size_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return logits[a] > logits[b]; });

  std::vector<double> probabilities(logits.size(), 0.0);
  if (c.params.greedy()) {
    probabilities[order[0]] = 1.0;
    return probabilities;
  }
  if (c.params.top_k > 0) order.resize(std::min(order.size(), static_cast<std::size_t>(c.params.top_k)));
  const auto weight = [&](std::size_t i) {
    return std::exp((logits[i] - logits[order[0]]) / static_cast<double>(c.params.temperature));
  };
  const auto total = [&] {
    return std::accumulate(order.begin(), order.end(), 0.0,
                           [&](double sum, auto i) { return sum + weight(i); });
  };
  double reached = 0.0;
  const double target = c.params.top_p * total();
  for (std::size_t kept = 0; c.params.top_p < 1.0F && kept < order.size(); ++kept) {
    reached += weight(order[kept]);
    if (reached >= target) order.resize(kept + 1);
  }
  std::erase_if(order, [&](auto i) { return weight(i) < static_cast<double>(c.params.min_p); });
  const double sum = total();
  for (const std::size_t i : order) probabilities[i] = weight(i) / sum;
  return probabilities;
}

}  // namespace tp::testing
