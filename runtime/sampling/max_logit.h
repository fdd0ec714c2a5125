#pragma once

#include "runtime/sampling/candidates.h"

#include <array>
#include <cstddef>
#include <limits>
#include <span>

namespace tp {

// The maximum of logit_of(0) ... logit_of(count - 1), or minus infinity if `count` is 0. NaN is ignored.
//
// Computed in lanes: with a single running maximum, every comparison would wait for the previous one, and
// compilers may not reorder comparisons of floats.
template <class LogitOf>
float max_logit(std::size_t count, LogitOf logit_of) {
  constexpr std::size_t kLanes = 64;
  std::array<float, kLanes> lanes;
  lanes.fill(-std::numeric_limits<float>::infinity());
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const float logit = logit_of(i + lane);
      lanes[lane] = logit > lanes[lane] ? logit : lanes[lane];
    }
  }
  float max = -std::numeric_limits<float>::infinity();
  for (const float lane : lanes) max = lane > max ? lane : max;
  for (; i < count; ++i) max = logit_of(i) > max ? logit_of(i) : max;
  return max;
}

inline float max_logit(std::span<const float> logits) {
  return max_logit(logits.size(), [logits](std::size_t i) { return logits[i]; });
}

inline float max_logit(std::span<const Candidate> candidates) {
  return max_logit(candidates.size(), [candidates](std::size_t i) { return candidates[i].logit; });
}

}  // namespace tp
