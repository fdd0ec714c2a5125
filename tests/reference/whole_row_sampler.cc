#include "tests/reference/whole_row_sampler.h"

#include "runtime/sampling/exponential.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace tp::reference {
namespace {

constexpr float kInfiniteLogit = std::numeric_limits<float>::infinity();
constexpr float kGreatest = std::numeric_limits<float>::max();

float penalised(float logit, TokenHistory::Counts counts, const SamplingParams& params) {
  if (logit == -kInfiniteLogit) return logit;
  double value = logit;
  if (counts.prompt + counts.generated > 0) {
    const double penalty = params.repetition_penalty;
    value = value > 0 ? value / penalty : value * penalty;
  }
  if (counts.generated > 0) {
    value -= params.presence_penalty;
    value -= static_cast<double>(params.frequency_penalty) * counts.generated;
  }
  return static_cast<float>(std::clamp<double>(value, -kGreatest, kGreatest));
}

float max_of(const std::vector<Candidate>& tokens) {
  float max = -kInfiniteLogit;
  for (const Candidate& token : tokens) max = std::max(max, token.logit);
  return max;
}

TokenId most_likely(const std::vector<Candidate>& tokens) {
  return std::min_element(tokens.begin(), tokens.end(), more_likely)->id;
}

// Returns a finite inverse even for the smallest temperatures, because the best token's distance of 0 must
// stay 0.
float inverse(float temperature) { return std::min(1.0F / temperature, kGreatest); }

// Gumbel-max: the largest log-weight plus noise is a draw. No sum is needed, so rounding and order don't
// matter.
TokenId draw(const std::vector<Candidate>& tokens, float inverse_temperature, const DrawKey& key) {
  constexpr double kRounding = 1e-9;  // more than the rounding errors of the bound and the score
  const RandomDraw noise(key);
  const float max = max_of(tokens);
  TokenId chosen = std::numeric_limits<TokenId>::max();
  double best = -std::numeric_limits<double>::infinity();
  for (const Candidate& token : tokens) {
    const std::uint64_t bits = noise.bits(token.id);
    const double log_weight = (static_cast<double>(token.logit) - max) * inverse_temperature;
    // This nearly always rules a token out without a logarithm.
    if (log_weight + RandomDraw::gumbel_bound(bits) + kRounding < best) continue;
    const double score = log_weight + RandomDraw::gumbel(bits);
    if (score > best || (score == best && token.id < chosen)) {
      best = score;
      chosen = token.id;
    }
  }
  return chosen;
}

// Sorting a vocabulary takes longer than everything else. Instead, tokens are put into buckets by their
// distance from the best token. Sums of whole buckets show which bucket contains the nucleus's end, and only
// this bucket is sorted.
Candidate last_of_nucleus(const std::vector<Candidate>& tokens, float share, float max,
                          float inverse_temperature) {
  constexpr std::size_t kBuckets = 2048;
  constexpr float kBucketsPerNat =
      50.0F;  // the last bucket begins at a weight of e^-41, where no nucleus ends
  const auto bucket_of = [=](Candidate token) {
    // Every operation is monotonic, rounding included: a more likely token is never in a later bucket.
    const float distance = (max - token.logit) * inverse_temperature * kBucketsPerNat;
    return static_cast<std::size_t>(std::min(distance, static_cast<float>(kBuckets - 1)));
  };

  // A bucket's weights have about the same exponent, so a double holds their sum exactly, in any order of the
  // tokens.
  std::vector<double> bucket_masses(kBuckets, 0.0);
  const auto weight_of = [=](Candidate token) {
    return exp_nonpositive((token.logit - max) * inverse_temperature);
  };
  for (const Candidate& token : tokens) bucket_masses[bucket_of(token)] += weight_of(token);
  double total = 0.0;
  for (const double bucket_mass : bucket_masses) total += bucket_mass;
  const double target = share * total;
  std::size_t bucket = 0;
  double sum = 0.0;
  while (bucket + 1 < kBuckets && sum + bucket_masses[bucket] < target) sum += bucket_masses[bucket++];

  std::vector<Candidate> boundary;
  for (const Candidate& token : tokens) {
    if (bucket_of(token) == bucket) boundary.push_back(token);
  }
  std::sort(boundary.begin(), boundary.end(), more_likely);
  for (const Candidate& token : boundary) {
    sum += weight_of(token);
    if (sum >= target) return token;
  }
  return boundary.back();  // rounding: the bucket was found with sums in a different order
}

void filter(std::vector<Candidate>& tokens, const SamplingParams& params) {
  const float inverse_temperature = inverse(params.temperature);
  const float max = max_of(tokens);
  if (params.top_k > 0) {
    std::sort(tokens.begin(), tokens.end(), more_likely);
    tokens.resize(std::min(tokens.size(), static_cast<std::size_t>(params.top_k)));
  }
  if (params.top_p < 1.0F) {
    const Candidate last = last_of_nucleus(tokens, params.top_p, max, inverse_temperature);
    std::erase_if(tokens, [last](Candidate token) { return more_likely(last, token); });
  }
  if (params.min_p > 0.0F) {
    const double max_distance = -std::log(static_cast<double>(params.min_p));
    std::erase_if(tokens, [=](Candidate token) {
      return (static_cast<double>(max) - token.logit) * inverse_temperature > max_distance;
    });
  }
}

}  // namespace

Choice choose(std::span<const float> logits, const SamplingParams& params, const TokenHistory& history,
              const DrawKey& key) {
  std::vector<Candidate> row;
  double sum = 0.0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (!(logits[i] < kInfiniteLogit)) return {};
    row.push_back({static_cast<TokenId>(i), logits[i]});
  }
  const float max = max_of(row);
  if (max == -kInfiniteLogit) return {};
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - max);
  const auto logprob = [&](Candidate token) { return static_cast<float>(token.logit - max - std::log(sum)); };

  std::vector<Candidate> tokens = row;
  for (const auto& [id, counts] : history.all()) {
    Candidate& token = tokens[static_cast<std::size_t>(id)];
    token.logit = penalised(token.logit, counts, params);
  }
  if (!params.greedy()) filter(tokens, params);
  Choice choice;
  choice.id = params.greedy() ? most_likely(tokens) : draw(tokens, inverse(params.temperature), key);
  choice.logprob = logprob(row[static_cast<std::size_t>(choice.id)]);
  std::sort(row.begin(), row.end(), more_likely);
  row.resize(std::min(row.size(), static_cast<std::size_t>(std::max(params.logprobs, 0))));
  for (const Candidate& token : row) choice.top_logprobs.push_back({token.id, logprob(token)});
  return choice;
}

}  // namespace tp::reference
