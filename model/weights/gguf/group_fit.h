// Finds scales and small integers for a group of weights, for the encoders of all quantized GGUF types.
//
// An element x becomes scale * v + offset, with v among a type's levels. The fit minimizes the sum of
// w (x - scale * v - offset)^2 over the group. For given levels, linear regression gives the best scale and
// offset. For a given scale and offset, the nearest levels are best. A fit alternates between these steps. It
// begins with several scales near the one at which the levels just span the group.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace tp {

// Rounds to the nearest whole number, for magnitudes below 2^22. Vectorized everywhere, unlike
// std::nearbyint.
inline float nearest_whole(float value) {
  constexpr float kUnitIsOne = 0x1.8p23F;
  return (value + kUnitIsOne) - kUnitIsOne;
}

// term(0) + ... + term(n - 1). Separate lanes allow vectorization: the compiler may not reorder a sum.
template <std::size_t n, class Term>
float sum_of(const Term& term) {
  constexpr std::size_t kLanes = 8;
  static_assert(n % kLanes == 0);
  std::array<float, kLanes> lanes{};
  for (std::size_t i = 0; i < n; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) lanes[lane] += term(i + lane);
  }
  return ((lanes[0] + lanes[4]) + (lanes[1] + lanes[5])) + ((lanes[2] + lanes[6]) + (lanes[3] + lanes[7]));
}

// The levels lowest, lowest + 1, ..., highest. Stored indices count from the lowest.
template <int lowest, int highest>
struct WholeLevels {
  static constexpr float kLowest = static_cast<float>(lowest);
  static constexpr float kHighest = static_cast<float>(highest);
  static float nearest(float value) { return std::clamp(nearest_whole(value), kLowest, kHighest); }
  static std::uint8_t index_of(float level) { return static_cast<std::uint8_t>(level - kLowest); }
};

// The levels of an ascending table, such as IQ4_NL's. An index is a place in the table.
template <const auto& table>
struct TableLevels {
  static constexpr float kLowest = table.front();
  static constexpr float kHighest = table.back();
  static float nearest(float value) {
    float level = table[0];
    for (std::size_t i = 1; i < table.size(); ++i) {
      const float middle = (static_cast<float>(table[i - 1]) + static_cast<float>(table[i])) / 2;
      level += value > middle ? static_cast<float>(table[i] - table[i - 1]) : 0.0F;
    }
    return level;
  }
  static std::uint8_t index_of(float level) {
    return static_cast<std::uint8_t>(std::find(table.begin(), table.end(), level) - table.begin());
  }
};

// A group and the weights of its errors. Large elements weigh more, because they matter more in products.
// Source of the weights: Kawrakow, for the K types, llama.cpp pull request 1684 and later.
template <std::size_t n>
struct Group {
  std::array<float, n> x;
  std::array<float, n> w;

  explicit Group(const float* elements) {
    std::copy_n(elements, n, x.begin());
    const float squares = sum_of<n>([&](std::size_t i) { return x[i] * x[i]; });
    const float deviation = std::sqrt(squares / static_cast<float>(n));
    for (std::size_t i = 0; i < n; ++i) w[i] = deviation + std::abs(x[i]);
  }
};

// Smaller scales are zero as f16, and might have no reciprocal.
inline constexpr float kMinScale = 1e-30F;

// The nearest levels of a group for a scale and an offset, and their error.
template <class Levels, std::size_t n>
struct Leveled {
  std::array<float, n> levels;
  float error;

  Leveled(const Group<n>& group, float scale, float offset) {
    const float inverse = std::abs(scale) < kMinScale ? 0.0F : 1.0F / scale;
    for (std::size_t i = 0; i < n; ++i) levels[i] = Levels::nearest((group.x[i] - offset) * inverse);
    error = sum_of<n>([&](std::size_t i) {
      const float difference = group.x[i] - (scale * levels[i] + offset);
      return group.w[i] * difference * difference;
    });
  }
};

struct GroupFit {
  float scale = 0.0F;
  float offset = 0.0F;
};

// Starting points of a search: factors of the scale at which the levels just span the group.
inline constexpr std::array kSpans = {0.80F, 0.85F, 0.89F, 0.92F, 0.95F, 0.975F, 1.0F, 1.03F};
inline constexpr int kRefinements = 2;

// Fits a scale without an offset. It may be negative, so that the element of largest magnitude becomes the
// lowest level, which is further from zero than the highest.
template <class Levels, std::size_t n>
GroupFit fit_scale(const Group<n>& group) {
  const float extreme = *std::max_element(group.x.begin(), group.x.end(),
                                          [](float a, float b) { return std::abs(a) < std::abs(b); });
  if (std::abs(extreme) < kMinScale) return {};
  GroupFit best;
  float explained = 0.0F;  // part of the sum of w x^2 that the best fit explains
  const auto try_scale = [&](float scale) {
    const float inverse = 1.0F / scale;
    std::array<float, n> levels;
    for (std::size_t i = 0; i < n; ++i) levels[i] = Levels::nearest(group.x[i] * inverse);
    const float vx = sum_of<n>([&](std::size_t i) { return group.w[i] * levels[i] * group.x[i]; });
    const float vv = sum_of<n>([&](std::size_t i) { return group.w[i] * levels[i] * levels[i]; });
    if (vv == 0.0F || vx * vx <= explained * vv) return false;
    best.scale = vx / vv;
    explained = vx * best.scale;
    return true;
  };
  for (const float span : kSpans) try_scale(extreme / Levels::kLowest * span);
  for (int i = 0; i < kRefinements && best.scale != 0.0F && try_scale(best.scale); ++i) {
  }
  return best;
}

enum class Offsets : std::uint8_t { any, not_positive };

// Fits a scale and an offset, for levels from 0. The scale is not negative.
template <class Levels, Offsets offsets, std::size_t n>
GroupFit fit_scale_and_offset(const Group<n>& group) {
  static_assert(Levels::kLowest == 0.0F);
  auto [min, max] = std::minmax_element(group.x.begin(), group.x.end());
  const float low = offsets == Offsets::not_positive ? std::min(*min, 0.0F) : *min;
  if (*max - low < kMinScale) return {.scale = 0.0F, .offset = low};
  const float ws = sum_of<n>([&](std::size_t i) { return group.w[i]; });
  const float xs = sum_of<n>([&](std::size_t i) { return group.w[i] * group.x[i]; });
  GroupFit best{.scale = (*max - low) / Levels::kHighest, .offset = low};
  float explained = 0.0F;
  const auto try_fit = [&](const GroupFit& from) {
    const float inverse = 1.0F / from.scale;
    std::array<float, n> levels;
    for (std::size_t i = 0; i < n; ++i) levels[i] = Levels::nearest((group.x[i] - from.offset) * inverse);
    const float vs = sum_of<n>([&](std::size_t i) { return group.w[i] * levels[i]; });
    const float vx = sum_of<n>([&](std::size_t i) { return group.w[i] * levels[i] * group.x[i]; });
    const float vv = sum_of<n>([&](std::size_t i) { return group.w[i] * levels[i] * levels[i]; });
    const float determinant = ws * vv - vs * vs;
    if (determinant <= 0.0F) return false;
    GroupFit fit{.scale = (ws * vx - xs * vs) / determinant, .offset = (vv * xs - vs * vx) / determinant};
    if (offsets == Offsets::not_positive && fit.offset > 0.0F) fit = {.scale = vx / vv, .offset = 0.0F};
    const float explains = fit.scale * vx + fit.offset * xs;
    if (fit.scale <= 0.0F || explains <= explained) return false;
    explained = explains;
    best = fit;
    return true;
  };
  for (const float span : kSpans) {
    const float scale = (*max - low) / Levels::kHighest * span;
    // Moves both ends of the span inwards by the same amount, unless the lower end is zero.
    const float cut = low == 0.0F ? 0.0F : (1.0F - span) / 2 * (*max - low);
    try_fit({.scale = scale, .offset = low + cut});
    if (span != 1.0F) try_fit({.scale = scale, .offset = low});
  }
  for (int i = 0; i < kRefinements && try_fit(best); ++i) {
  }
  return best;
}

}  // namespace tp
