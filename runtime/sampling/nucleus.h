// The arithmetic of top-p. Results depend neither on the order of the tokens nor on their distribution over
// ranks.
#pragma once

#include "runtime/sampling/candidates.h"
#include "runtime/sampling/exponential.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace tp {

// Finite even for the smallest temperatures, because the best token has distance 0, and 0 times infinity
// would be NaN.
float inverse_temperature(float temperature);

// The weights of a row's tokens, and buckets of tokens with similar probabilities.
//
// Sorting a vocabulary would take longer than everything else. Instead, tokens are put into buckets by their
// distance from the best logit. Sums over buckets show in which bucket the nucleus ends, and only this bucket
// is sorted.
class NucleusScale {
 public:
  static constexpr std::size_t kBuckets = 2048;

  // `max`: the row's maximum logit.
  NucleusScale(float max, float inverse_temperature) : max_(max), inverse_temperature_(inverse_temperature) {}

  float weight(float logit) const { return exp_nonpositive((logit - max_) * inverse_temperature_); }

  // Every operation is monotonic, including rounding: a more likely token is never in a later bucket.
  std::int32_t bucket(float logit) const {
    // The last bucket begins at a weight of e^-41, where no nucleus ends.
    constexpr float kBucketsPerNat = 50.0F;
    const float distance = (max_ - logit) * inverse_temperature_ * kBucketsPerNat;
    return static_cast<std::int32_t>(std::min(distance, static_cast<float>(kBuckets - 1)));
  }

  // A token's contribution to the mass of its bucket. The weights in a bucket have about the same exponent,
  // so their sum is exact in a double, in any order of the tokens. The last bucket contains weights from
  // e^-41 down to 0. They are rounded to multiples of 2^-91, so their sum is exact, too.
  static double mass(std::int32_t bucket, float weight) {
    constexpr double kRounder = 0x1.8p-39;
    return bucket + 1 < static_cast<std::int32_t>(kBuckets) ? weight : (weight + kRounder) - kRounder;
  }

 private:
  float max_;
  float inverse_temperature_;
};

// The bucket in which the sum of masses, starting from `before`, reaches `target`. If rounding keeps the sum
// below `target`, the last bucket with any mass.
struct MassBucket {
  std::size_t index = 0;
  double before = 0.0;  // sum of the masses before this bucket
};
MassBucket find_bucket(std::span<const double> masses, double before, double target);

}  // namespace tp
