#pragma once

#include "runtime/speculation/hit_rate.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace tp {

// Measures how often the model accepts a draft model's token, by the probability that the draft model gave to
// the token.
class Calibration {
 public:
  void add(double probability, bool accepted) {
    kinds_[kind_of(probability)].add(accepted);
    all_.add(accepted);
  }
  // Between 0 and 1; close to `probability` while few tokens were counted.
  double chance(double probability) const {
    const std::size_t kind = kind_of(probability);
    return kinds_[kind].value((static_cast<double>(kind) + 0.5) / kKinds);
  }
  // The average over all probabilities.
  double mean() const { return all_.value(0.6); }

 private:
  static constexpr std::size_t kKinds = 10;

  static std::size_t kind_of(double probability) {
    if (!(probability > 0.0)) return 0;
    return std::min(static_cast<std::size_t>(probability * kKinds), kKinds - 1);
  }

  std::array<HitRate, kKinds> kinds_{};
  HitRate all_{};
};

}  // namespace tp
