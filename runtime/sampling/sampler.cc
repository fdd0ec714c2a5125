#include "runtime/sampling/sampler.h"

#include "runtime/sampling/max_logit.h"
#include "runtime/sampling/nucleus.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tp {

MinP::MinP(float fraction, float max, float inverse_temperature)
    : max_(max),
      inverse_temperature_(inverse_temperature),
      max_distance_(-std::log(static_cast<double>(fraction))) {}

namespace {

void keep_top_k(std::vector<Candidate>& tokens, std::size_t count) {
  if (count >= tokens.size()) return;
  BestCandidates best(count);
  for (const Candidate& token : tokens) best.add(token);
  tokens = best.take();
}

// The last token of the nucleus, which is the smallest set of most likely tokens whose weights reach `share`
// of the total. `tokens`: most likely first.
Candidate last_of_nucleus(const std::vector<Candidate>& tokens, float share, const NucleusScale& scale) {
  const auto bucket_of = [&](Candidate token) { return scale.bucket(token.logit); };
  const auto mass_of = [&](Candidate token) {
    return NucleusScale::mass(bucket_of(token), scale.weight(token.logit));
  };
  std::vector<double> masses(NucleusScale::kBuckets, 0.0);
  for (const Candidate& token : tokens) masses[static_cast<std::size_t>(bucket_of(token))] += mass_of(token);
  const double target = share * std::accumulate(masses.begin(), masses.end(), 0.0);
  const MassBucket end = find_bucket(masses, 0.0, target);
  Candidate last = tokens.front();
  double sum = end.before;
  for (const Candidate& token : tokens) {
    if (static_cast<std::size_t>(bucket_of(token)) != end.index) continue;
    last = token;
    sum += mass_of(token);
    if (sum >= target) break;
  }
  return last;
}

}  // namespace

TokenId choose_among(std::vector<Candidate> tokens, const SamplingParams& params, const DrawKey& key) {
  const float inverse = inverse_temperature(params.temperature);
  const float max = max_logit(tokens);
  if (params.top_k > 0) keep_top_k(tokens, static_cast<std::size_t>(params.top_k));
  if (params.top_p < 1.0F) {
    std::sort(tokens.begin(), tokens.end(), more_likely);
    const Candidate last = last_of_nucleus(tokens, params.top_p, NucleusScale(max, inverse));
    std::erase_if(tokens, [last](Candidate token) { return more_likely(last, token); });
  }
  const MinP min_p(params.min_p, max, inverse);
  GumbelDraw draw(key, max, inverse);
  for (const Candidate& token : tokens) {
    if (min_p.keeps(token)) draw.consider(token);
  }
  return draw.winner().id;
}

}  // namespace tp
