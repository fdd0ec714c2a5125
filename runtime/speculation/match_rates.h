#pragma once

#include "runtime/speculation/hit_rate.h"

#include <array>
#include <cstddef>

namespace tp {

// Measures how often the token that followed an earlier occurrence occurs again, by the length of the
// repeated text. Short matches are often accidental; long repeated phrases predict well.
class MatchRates {
 public:
  // Recent matches weigh more.
  void add(std::size_t length, bool came_again);
  // Between 0 and 1. The rate of `others` dominates while few matches were counted.
  double rate(std::size_t length, const MatchRates* others = nullptr) const;

 private:
  static constexpr std::size_t kKinds = 6;

  static std::size_t kind_of(std::size_t length);

  std::array<HitRate, kKinds> kinds_{};
};

}  // namespace tp
