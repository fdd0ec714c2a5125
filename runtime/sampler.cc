#include "runtime/sampler.h"

#include "runtime/exponential.h"
#include "runtime/max_logit.h"
#include "tp/error.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>

namespace tp {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kGreatest = std::numeric_limits<float>::max();

void check_logits(const Candidates& candidates) {
  bool usable = std::isfinite(candidates.log_sum_exp);
  bool any_possible = false;
  for (const Candidate& entry : candidates.entries) {
    usable &= entry.logit < kInfinity;
    any_possible |= entry.logit > -kInfinity;
  }
  require<RequestError>(
      usable && any_possible,
      "cannot choose a token: the model's logits are not numbers (expected finite ones, found NaN or "
      "infinity); check the checkpoint, and try --weights f32 if it is stored as f16");
}

void check_enough(const Candidates& candidates, const SamplingParams& params, const TokenHistory& history) {
  const std::size_t needed = candidates_needed(params, history, candidates.vocab_size);
  require<std::logic_error>(
      !candidates.entries.empty() && candidates.entries.size() >= needed,
      "cannot choose a token: these parameters need {} candidates per rank, found {} in all", needed,
      candidates.entries.size());
}

float penalised(float logit, TokenHistory::Counts counts, const SamplingParams& params) {
  if (logit == -kInfinity) return logit;
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

// Whether a token's index is its id, so that tokens can be looked up.
bool indexed_by_id(const std::vector<Candidate>& tokens) {
  bool indexed = true;
  for (std::size_t i = 0; i < tokens.size(); ++i) indexed &= tokens[i].id == static_cast<TokenId>(i);
  return indexed;
}

TokenId most_likely(const std::vector<Candidate>& tokens) {
  return std::min_element(tokens.begin(), tokens.end(), more_likely)->id;
}

// Finite even for the smallest temperatures: the best token's distance of 0 must stay 0 when multiplied by
// it.
float inverse(float temperature) { return std::min(1.0F / temperature, kGreatest); }

// Gumbel-max: the greatest of log-weight plus noise is a draw. No sum is taken, so rounding and order do not
// matter.
TokenId draw(const std::vector<Candidate>& tokens, float inverse_temperature, const DrawKey& key) {
  constexpr double kRounding = 1e-9;  // more than that of the bound and of the score
  const RandomDraw noise(key);
  const float max = max_logit(tokens);
  TokenId chosen = std::numeric_limits<TokenId>::max();
  double best = -std::numeric_limits<double>::infinity();
  for (const Candidate& token : tokens) {
    const std::uint64_t bits = noise.bits(token.id);
    const double log_weight = (static_cast<double>(token.logit) - max) * inverse_temperature;
    // Nearly always enough to rule a token out, without a logarithm.
    if (log_weight + RandomDraw::gumbel_bound(bits) + kRounding < best) continue;
    const double score = log_weight + RandomDraw::gumbel(bits);
    if (score > best || (score == best && token.id < chosen)) {
      best = score;
      chosen = token.id;
    }
  }
  return chosen;
}

float logprob(float logit, double log_sum_exp) { return static_cast<float>(logit - log_sum_exp); }

float logprob_of(TokenId id, const Candidates& candidates) {
  const auto& entries = candidates.entries;
  const auto index = static_cast<std::size_t>(id);
  if (index < entries.size() && entries[index].id == id) {
    return logprob(entries[index].logit, candidates.log_sum_exp);
  }
  const auto found =
      std::find_if(entries.begin(), entries.end(), [id](Candidate entry) { return entry.id == id; });
  return logprob(found->logit, candidates.log_sum_exp);
}

std::vector<TokenLogprob> top_logprobs(const Candidates& candidates, int count) {
  std::vector<TokenLogprob> result;
  if (count <= 0) return result;
  BestCandidates best(std::min(static_cast<std::size_t>(count), candidates.entries.size()));
  for (const Candidate& entry : candidates.entries) best.add(entry);
  for (const Candidate& entry : best.take_sorted()) {
    result.push_back({entry.id, logprob(entry.logit, candidates.log_sum_exp)});
  }
  return result;
}

}  // namespace

Choice Sampler::choose(const Candidates& candidates, const SamplingParams& params,
                       const TokenHistory& history, const DrawKey& key) {
  check_logits(candidates);
  check_enough(candidates, params, history);
  penalise(candidates, params, history);
  if (!params.greedy()) filter(params);

  Choice choice;
  choice.id = params.greedy() ? most_likely(tokens_) : draw(tokens_, inverse(params.temperature), key);
  choice.logprob = logprob_of(choice.id, candidates);
  choice.top_logprobs = top_logprobs(candidates, params.logprobs);
  return choice;
}

void Sampler::penalise(const Candidates& candidates, const SamplingParams& params,
                       const TokenHistory& history) {
  tokens_.assign(candidates.entries.begin(), candidates.entries.end());
  const bool any = params.repetition_penalty != 1.0F || params.presence_penalty != 0.0F ||
                   params.frequency_penalty != 0.0F;
  if (!any || history.all().empty()) return;
  if (!indexed_by_id(tokens_)) {
    for (Candidate& token : tokens_) token.logit = penalised(token.logit, history.counts(token.id), params);
    return;
  }
  for (const auto& [id, counts] : history.all()) {
    const auto index = static_cast<std::size_t>(id);
    if (index < tokens_.size()) tokens_[index].logit = penalised(tokens_[index].logit, counts, params);
  }
}

void Sampler::filter(const SamplingParams& params) {
  const float inverse_temperature = inverse(params.temperature);
  if (params.top_k > 0) keep_top_k(static_cast<std::size_t>(params.top_k));
  if (params.top_p < 1.0F) keep_top_p(params.top_p, inverse_temperature);
  if (params.min_p > 0.0F) keep_min_p(params.min_p, inverse_temperature);
}

void Sampler::keep_top_k(std::size_t count) {
  if (count >= tokens_.size()) return;
  BestCandidates best(count);
  for (const Candidate& token : tokens_) best.add(token);
  tokens_ = best.take();
}

void Sampler::keep_top_p(float mass, float inverse_temperature) {
  const float max = max_logit(tokens_);
  weights_.resize(tokens_.size());
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    weights_[i] = exp_nonpositive((tokens_[i].logit - max) * inverse_temperature);
  }
  const Candidate last = last_of_nucleus(mass, max, inverse_temperature);
  std::erase_if(tokens_, [last](Candidate token) { return more_likely(last, token); });
}

// Sorting a vocabulary takes longer than all the rest. Instead tokens are put into buckets by their distance
// from the best; sums of whole buckets tell in which one the nucleus ends, and only that one is sorted.
Candidate Sampler::last_of_nucleus(float share, float max, float inverse_temperature) {
  constexpr std::size_t kBuckets = 2048;
  constexpr float kBucketsPerNat =
      50.0F;  // the last bucket begins at a weight of e^-41, where no nucleus ends
  const auto bucket_of = [=](Candidate token) {
    // Every operation is monotonic, rounding included: a more likely token is never in a later bucket.
    const float distance = (max - token.logit) * inverse_temperature * kBucketsPerNat;
    return static_cast<std::size_t>(std::min(distance, static_cast<float>(kBuckets - 1)));
  };

  // The weights of a bucket have about the same exponent, so that a double holds their sum exactly: it does
  // not depend on the order of the tokens.
  bucket_masses_.assign(kBuckets, 0.0);
  for (std::size_t i = 0; i < tokens_.size(); ++i) bucket_masses_[bucket_of(tokens_[i])] += weights_[i];
  double total = 0.0;
  for (const double bucket_mass : bucket_masses_) total += bucket_mass;
  const double target = share * total;
  std::size_t bucket = 0;
  double sum = 0.0;
  while (bucket + 1 < kBuckets && sum + bucket_masses_[bucket] < target) sum += bucket_masses_[bucket++];

  boundary_.clear();
  for (const Candidate& token : tokens_) {
    if (bucket_of(token) == bucket) boundary_.push_back(token);
  }
  std::sort(boundary_.begin(), boundary_.end(), more_likely);
  for (const Candidate& token : boundary_) {
    sum += exp_nonpositive((token.logit - max) * inverse_temperature);
    if (sum >= target) return token;
  }
  return boundary_.back();  // rounding: the bucket was found by a sum in another order
}

void Sampler::keep_min_p(float fraction, float inverse_temperature) {
  const float max = max_logit(tokens_);
  const double furthest = -std::log(static_cast<double>(fraction));
  std::erase_if(tokens_, [=](Candidate token) {
    return (static_cast<double>(max) - token.logit) * inverse_temperature > furthest;
  });
}

}  // namespace tp
