#pragma once

#include "runtime/speculation/hit_rate.h"

#include <array>
#include <cstddef>

namespace tp {

// How often the token that followed an earlier occurrence came again, by the length of the repeated text:
// tokens that have occurred by chance say little, whole repeated phrases much.
class MatchRates {
 public:
  // Recent matches weigh more.
  void add(std::size_t length, bool came_again);
  // Between 0 and 1. As long as few matches were counted, what `others` say weighs more than they do.
  double rate(std::size_t length, const MatchRates* others = nullptr) const;

 private:
  static constexpr std::size_t kKinds = 6;

  static std::size_t kind_of(std::size_t length);

  std::array<HitRate, kKinds> kinds_{};
};

}  // namespace tp
