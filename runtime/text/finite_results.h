// Checks that a model's results are numbers, before they become sums, vectors or JSON.
#pragma once

#include "tp/internal/require.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <string>

namespace tp {

inline bool all_finite(std::span<const float> results) {
  return std::ranges::all_of(results, [](float result) { return std::isfinite(result); });
}

// The error message for results that are not finite. `results`: their name, such as "hidden states".
inline std::string not_finite(const char* results) {
  return fmt::format(
      "cannot compute {}: the model's results are not finite (expected numbers, found NaN or infinity); "
      "check "
      "the checkpoint, and try `weights` f32 if it is stored as f16",
      results);
}

// Throws Error if a value is not finite.
inline void require_finite(std::span<const float> values, const char* results) {
  if (!all_finite(values)) throw Error(not_finite(results));
}

}  // namespace tp
