// Fits super-blocks of 256 elements. The scale and offset of each group are small integers times f16 numbers
// of the super-block.
#pragma once

#include "model/kernels/half.h"
#include "model/weights/gguf/group_fit.h"

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace tp {

inline constexpr std::size_t kSuperBlock = 256;

// An f16 number and its value.
struct Half {
  std::uint16_t bits = 0;
  float value = 0.0F;

  Half() = default;
  explicit Half(float number) : bits(kernels::float_to_f16(number)), value(kernels::f16_to_float(bits)) {}
};

// An element is scale * scales[group] * level - offset * offsets[group].
template <class Type>
struct SuperBlock {
  static constexpr std::size_t kGroups = kSuperBlock / Type::kGroupSize;

  Half scale;
  Half offset;
  std::array<int, kGroups> scales{};
  std::array<int, kGroups> offsets{};
  std::array<std::uint8_t, kSuperBlock> elements{};  // indices of levels, as stored
};

// `Type` defines the levels of elements (Levels), the elements per group (kGroupSize), the range of a group's
// integer scale (kLowestScale, kHighestScale), and the highest integer offset (kHighestOffset; 0: no
// offsets).
template <class Type>
class SuperBlockFit {
 public:
  explicit SuperBlockFit(const float* elements)
      : groups_(groups_of(elements, std::make_index_sequence<kGroups>())) {}

  SuperBlock<Type> best() {
    begin();
    float error = choose_integers();
    for (int i = 0; i < kRefinements; ++i) {
      const SuperBlock<Type> before = block_;
      const float now = solve_halves() ? choose_integers() : error;
      if (now >= error) {
        block_ = before;
        break;
      }
      error = now;
    }
    store_elements();
    return block_;
  }

 private:
  static constexpr std::size_t kGroups = SuperBlock<Type>::kGroups;
  static constexpr std::size_t n = Type::kGroupSize;
  using Levels = typename Type::Levels;

  template <std::size_t... i>
  static std::array<Group<n>, kGroups> groups_of(const float* elements, std::index_sequence<i...>) {
    return {Group<n>(elements + i * n)...};
  }

  // Fits each group separately. Chooses halves for which the largest scale and offset get the extreme
  // integers.
  void begin() {
    std::array<GroupFit, kGroups> fits;
    float largest = 0.0F;
    float lowest = 0.0F;
    for (std::size_t j = 0; j < kGroups; ++j) {
      if constexpr (Type::kHighestOffset > 0)
        fits[j] = fit_scale_and_offset<Levels, Offsets::not_positive>(groups_[j]);
      else
        fits[j] = fit_scale<Levels>(groups_[j]);
      if (std::abs(fits[j].scale) > std::abs(largest)) largest = fits[j].scale;
      lowest = std::min(lowest, fits[j].offset);
    }
    constexpr int kExtreme = Type::kLowestScale < 0 ? Type::kLowestScale : Type::kHighestScale;
    block_.scale = Half(largest / static_cast<float>(kExtreme));
    if constexpr (Type::kHighestOffset > 0)
      block_.offset = Half(-lowest / static_cast<float>(Type::kHighestOffset));
    for (std::size_t j = 0; j < kGroups; ++j) {
      block_.scales[j] = whole(fits[j].scale, block_.scale.value, Type::kLowestScale, Type::kHighestScale);
      block_.offsets[j] = whole(-fits[j].offset, block_.offset.value, 0, Type::kHighestOffset);
    }
  }

  static int whole(float number, float unit, int lowest, int highest) {
    if (unit == 0.0F) return 0;
    return static_cast<int>(
        std::clamp(std::nearbyint(number / unit), static_cast<float>(lowest), static_cast<float>(highest)));
  }

  float scale_of(int scale) const { return block_.scale.value * static_cast<float>(scale); }
  float offset_of(int offset) const { return -block_.offset.value * static_cast<float>(offset); }

  // Tries the neighbours of each group's integers with the current halves. Returns the total error.
  float choose_integers() {
    float sum = 0.0F;
    for (std::size_t j = 0; j < kGroups; ++j) {
      const int scale = block_.scales[j];
      const int offset = block_.offsets[j];
      float min = Leveled<Levels, n>(groups_[j], scale_of(scale), offset_of(offset)).error;
      for (int s = std::max(scale - 1, Type::kLowestScale); s <= std::min(scale + 1, Type::kHighestScale);
           ++s) {
        for (int t = std::max(offset - 1, 0); t <= std::min(offset + 1, Type::kHighestOffset); ++t) {
          if (s == scale && t == offset) continue;
          const float error = Leveled<Levels, n>(groups_[j], scale_of(s), offset_of(t)).error;
          if (error >= min) continue;
          min = error;
          block_.scales[j] = s;
          block_.offsets[j] = t;
        }
      }
      sum += min;
    }
    return sum;
  }

  // Sets the best halves for the current integers, by regression over the super-block. False if there are
  // none.
  bool solve_halves() {
    double vv = 0.0;
    double vt = 0.0;
    double tt = 0.0;
    double vx = 0.0;
    double tx = 0.0;
    for (std::size_t j = 0; j < kGroups; ++j) {
      const Group<n>& group = groups_[j];
      const Leveled<Levels, n> leveled(group, scale_of(block_.scales[j]), offset_of(block_.offsets[j]));
      const std::array<float, n>& v = leveled.levels;
      const double s = block_.scales[j];
      const double t = -block_.offsets[j];
      vv += s * s * sum_of<n>([&](std::size_t i) { return group.w[i] * v[i] * v[i]; });
      vt += s * t * sum_of<n>([&](std::size_t i) { return group.w[i] * v[i]; });
      tt += t * t * sum_of<n>([&](std::size_t i) { return group.w[i]; });
      vx += s * sum_of<n>([&](std::size_t i) { return group.w[i] * v[i] * group.x[i]; });
      tx += t * sum_of<n>([&](std::size_t i) { return group.w[i] * group.x[i]; });
    }
    const double determinant = vv * tt - vt * vt;
    if (Type::kHighestOffset > 0 && determinant > 1e-9 * vv * tt) {
      block_.scale = Half(static_cast<float>((tt * vx - vt * tx) / determinant));
      block_.offset = Half(static_cast<float>((vv * tx - vt * vx) / determinant));
      return block_.scale.value > 0.0F && block_.offset.value >= 0.0F;
    }
    if (vv <= 0.0) return false;
    block_.scale = Half(static_cast<float>((vx - block_.offset.value * vt) / vv));
    return true;
  }

  void store_elements() {
    for (std::size_t j = 0; j < kGroups; ++j) {
      const Leveled<Levels, n> leveled(groups_[j], scale_of(block_.scales[j]), offset_of(block_.offsets[j]));
      for (std::size_t i = 0; i < n; ++i) block_.elements[j * n + i] = Levels::index_of(leveled.levels[i]);
    }
  }

  std::array<Group<n>, kGroups> groups_;
  SuperBlock<Type> block_;
};

}  // namespace tp
