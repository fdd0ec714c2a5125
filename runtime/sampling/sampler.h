// Filters candidates and draws one of them. Their logits already include bias and penalties.
#pragma once

#include "runtime/sampling/candidates.h"
#include "runtime/sampling/random_draw.h"
#include "tp/request.h"

#include <cstdint>
#include <limits>
#include <vector>

namespace tp {

// Draws one of the tokens passed to it, with probabilities proportional to their weights.
//
// Uses the Gumbel-max trick: the token with the greatest log-weight plus noise wins. Without a sum, neither
// rounding nor order matters, nor which rank considers a token: the winner with the best score among several
// draws is the overall winner.
class GumbelDraw {
 public:
  // `max`: maximum logit of the whole row, not only of the tokens passed here.
  GumbelDraw(const DrawKey& key, float max, float inverse_temperature)
      : noise_(key), max_(max), inverse_temperature_(inverse_temperature) {}

  void consider(Candidate token) {
    constexpr double kRounding = 1e-9;  // more than the rounding errors of bound and score
    const std::uint64_t bits = noise_.bits(token.id);
    const double log_weight = (static_cast<double>(token.logit) - max_) * inverse_temperature_;
    // Rules out nearly every token without a logarithm.
    if (log_weight + RandomDraw::gumbel_bound(bits) + kRounding < score_) return;
    const double score = log_weight + RandomDraw::gumbel(bits);
    if (score > score_ || (score == score_ && token.id < winner_.id)) {
      score_ = score;
      winner_ = token;
    }
  }

  // The winner's score; minus infinity if there is no winner.
  double score() const { return score_; }
  Candidate winner() const { return winner_; }

 private:
  RandomDraw noise_;
  float max_;
  float inverse_temperature_;
  double score_ = -std::numeric_limits<double>::infinity();
  Candidate winner_{std::numeric_limits<TokenId>::max(), -std::numeric_limits<float>::infinity()};
};

// Decides whether a token has at least `fraction` of the most likely token's probability.
class MinP {
 public:
  MinP(float fraction, float max, float inverse_temperature);
  bool keeps(Candidate token) const { return (max_ - token.logit) * inverse_temperature_ <= max_distance_; }

 private:
  double max_;
  float inverse_temperature_;
  double max_distance_;
};

// Applies top-k, top-p (which keeps at least one of the tokens that top-k kept) and min-p, and draws a token
// from the rest. Tokens may be in any order. At least one must not be ruled out.
TokenId choose_among(std::vector<Candidate> tokens, const SamplingParams& params, const DrawKey& key);

}  // namespace tp
