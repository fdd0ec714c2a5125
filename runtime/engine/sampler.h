// Filters and draws: how one token is chosen among several, whose logits are as they should be.
#pragma once

#include "runtime/engine/candidates.h"
#include "runtime/engine/random_draw.h"
#include "tp/request.h"

#include <cstdint>
#include <limits>
#include <vector>

namespace tp {

// A draw among tokens that are given one after the other, with probabilities proportional to their weights.
//
// Gumbel-max: the greatest of log-weight plus noise is a draw. No sum is taken, so rounding, order and the
// place where a token is looked at do not matter; the best of several draws' winners is the winner of all.
class GumbelDraw {
 public:
  // `max`: the greatest logit of the row, not only of the tokens given here.
  GumbelDraw(const DrawKey& key, float max, float inverse_temperature)
      : noise_(key), max_(max), inverse_temperature_(inverse_temperature) {}

  void consider(Candidate token) {
    constexpr double kRounding = 1e-9;  // more than that of the bound and of the score
    const std::uint64_t bits = noise_.bits(token.id);
    const double log_weight = (static_cast<double>(token.logit) - max_) * inverse_temperature_;
    // Nearly always enough to rule a token out, without a logarithm.
    if (log_weight + RandomDraw::gumbel_bound(bits) + kRounding < score_) return;
    const double score = log_weight + RandomDraw::gumbel(bits);
    if (score > score_ || (score == score_ && token.id < winner_.id)) {
      score_ = score;
      winner_ = token;
    }
  }

  // Of the winner; minus infinity if there is none.
  double score() const { return score_; }
  Candidate winner() const { return winner_; }

 private:
  RandomDraw noise_;
  float max_;
  float inverse_temperature_;
  double score_ = -std::numeric_limits<double>::infinity();
  Candidate winner_{std::numeric_limits<TokenId>::max(), -std::numeric_limits<float>::infinity()};
};

// Whether a token has at least a fraction of the best one's probability.
class MinP {
 public:
  MinP(float fraction, float max, float inverse_temperature);
  bool keeps(Candidate token) const { return (max_ - token.logit) * inverse_temperature_ <= furthest_; }

 private:
  double max_;
  float inverse_temperature_;
  double furthest_;
};

// Top-k, top-p (of what top-k left, at least one), min-p, and a draw from what is left. Tokens may come in
// any order; there must be one that is not ruled out.
TokenId choose_among(std::vector<Candidate> tokens, const SamplingParams& params, const DrawKey& key);

}  // namespace tp
