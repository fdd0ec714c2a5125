// The arithmetic of top-p, which makes its result independent of the order of tokens and of how they are
// spread over ranks.
#pragma once

#include "runtime/engine/candidates.h"
#include "runtime/engine/exponential.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace tp {

// Finite even for the smallest temperatures: the best token's distance of 0 must stay 0 when multiplied by
// it.
float inverse_temperature(float temperature);

// Weights of a row's tokens, and buckets of tokens about equally likely.
//
// Sorting a vocabulary takes longer than all the rest. Instead tokens are put into buckets by their distance
// from the best; sums of whole buckets tell in which one the nucleus ends, and only that one is sorted.
class NucleusScale {
 public:
  static constexpr std::size_t kBuckets = 2048;

  // `max`: the row's greatest logit.
  NucleusScale(float max, float inverse_temperature) : max_(max), inverse_temperature_(inverse_temperature) {}

  float weight(float logit) const { return exp_nonpositive((logit - max_) * inverse_temperature_); }

  // Every operation is monotonic, rounding included: a more likely token is never in a later bucket.
  std::int32_t bucket(float logit) const {
    // The last bucket begins at a weight of e^-41, where no nucleus ends.
    constexpr float kBucketsPerNat = 50.0F;
    const float distance = (max_ - logit) * inverse_temperature_ * kBucketsPerNat;
    return static_cast<std::int32_t>(std::min(distance, static_cast<float>(kBuckets - 1)));
  }

  // What a token adds to the mass of its bucket. The weights of a bucket have about the same exponent, so
  // that a double holds their sum exactly: the order of the tokens does not matter. The last bucket's
  // weights, from e^-41 down to nothing, are rounded to multiples of 2^-91, whose sums are exact as well.
  static double mass(std::int32_t bucket, float weight) {
    constexpr double kRounder = 0x1.8p-39;
    return bucket + 1 < static_cast<std::int32_t>(kBuckets) ? weight : (weight + kRounder) - kRounder;
  }

 private:
  float max_;
  float inverse_temperature_;
};

// The bucket in which the sum of masses, beginning with `before`, reaches `target`; the last that has any
// mass if rounding keeps it from getting there.
struct MassBucket {
  std::size_t index = 0;
  double before = 0.0;  // the sum without it
};
MassBucket find_bucket(std::span<const double> masses, double before, double target);

}  // namespace tp
