// Random rows of the types with a ScaledFormat, and their values by definition.
#pragma once

#include "model/kernels/half.h"
#include "model/kernels/scaled_weight.h"
#include "tests/reference/four_bit_floats.h"
#include "tests/reference/random.h"

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tp::test {

inline double value_of_e4m3(unsigned bits) {
  const int exponent = static_cast<int>(bits >> 3 & 15U);
  const int mantissa = static_cast<int>(bits & 7U);
  if (exponent == 15 && mantissa == 7) return NAN;
  const double magnitude = exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
  return bits >= 128 ? -magnitude : magnitude;
}

// Returns the largest number of a type's bits.
inline std::size_t max_bits(WeightType type) {
  return type == WeightType::int4_scaled || type == WeightType::nf4 ? 15 : 255;
}

// Columns from `phase` on of a matrix. Groups have `group` columns, or the sizes in a list. Blocks of
// `row_block` rows share scales.
struct ScaledCase {
  WeightType type;
  kernels::ScaleType scale_type;
  bool has_zero_points;
  std::size_t row_block;
  std::size_t group;  // 0: a list
  std::size_t phase;
};

class RandomScaled {
 public:
  RandomScaled(reference::Random& random, const ScaledCase& of, std::size_t rows, std::size_t columns)
      : case_(of), rows_(rows), columns_(columns) {
    groups_ = of.group == 0 ? 5 : columns == 0 ? 0 : (of.phase + columns + of.group - 1) / of.group;
    for (std::size_t k = 0; of.group == 0 && k < columns; ++k)
      list_.push_back(static_cast<std::uint16_t>(random.integer(0, 4)));
    for (std::size_t i = 0; i < rows * columns; ++i) {
      auto element = static_cast<std::uint8_t>(random.integer(0, max_bits(of.type)));
      if (of.type == WeightType::f8_e4m3 && (element & 0x7fU) == 0x7fU) element = 0;
      elements_.push_back(element);
    }
    for (std::size_t row = 0; row < rows; ++row) {
      const bool is_new = row == 0 || row % of.row_block == 0;
      for (std::size_t g = 0; g < groups_; ++g) {
        const float scale = (random.number() + 1.5F) / 64;
        const auto zero = static_cast<std::uint8_t>(random.integer(0, max_bits(of.type)));
        scales_.push_back(is_new ? bits_of(scale) : scales_[scales_.size() - groups_]);
        zero_points_.push_back(is_new ? zero : zero_points_[zero_points_.size() - groups_]);
      }
      const bool begins_panel = row % 16 == 0;
      scale_rows_.push_back(begins_panel ? std::uint8_t{0}
                                         : static_cast<std::uint8_t>(scale_rows_.back() + (is_new ? 1 : 0)));
    }
  }

  kernels::PackedLayout layout(std::size_t leaf = 0, bool same_bits = false) const {
    std::size_t max = 1;
    for (const std::uint8_t index : scale_rows_) max = std::max(max, index + std::size_t{1});
    return {case_.type,
            rows_,
            columns_,
            same_bits,
            leaf,
            0,
            {kernels::scaled_element(case_.type), case_.scale_type, case_.has_zero_points, max, groups_,
             case_.group, case_.phase}};
  }
  std::vector<std::byte> packed(const kernels::PackedLayout& layout) {
    std::vector<std::byte> memory(layout.bytes());
    if (layout.has_column_groups()) kernels::set_column_groups(layout, list_, memory.data());
    kernels::pack_scaled(
        layout, 0,
        {rows_, columns_, groups_, elements_.data(), scales_.data(), zero_points_.data(), scale_rows_.data()},
        memory.data());
    return memory;
  }

  // Rounded once to float32.
  float value(std::size_t row, std::size_t column) const {
    const std::size_t group = case_.group == 0 ? list_[column] : (case_.phase + column) / case_.group;
    const std::uint32_t bits = scales_[row * groups_ + group];
    const double scale = case_.scale_type == kernels::ScaleType::f32 ? std::bit_cast<float>(bits)
                         : case_.scale_type == kernels::ScaleType::f16
                             ? kernels::f16_to_float(static_cast<std::uint16_t>(bits))
                             : kernels::bf16_to_float(static_cast<std::uint16_t>(bits));
    const int element = elements_[row * columns_ + column];
    if (case_.type == WeightType::f8_e4m3)
      return static_cast<float>(value_of_e4m3(static_cast<unsigned>(element)) * scale);
    if (case_.type == WeightType::nf4) return static_cast<float>(reference::kNf4Levels[element] * scale);
    const int without = case_.type == WeightType::int4_scaled ? 8 : 128;
    const int zero = case_.has_zero_points ? zero_points_[row * groups_ + group] : without;
    return static_cast<float>((element - zero) * scale);
  }
  std::vector<std::uint8_t>& elements() { return elements_; }

 private:
  std::uint32_t bits_of(float scale) const {
    if (case_.scale_type == kernels::ScaleType::f32) return std::bit_cast<std::uint32_t>(scale);
    return case_.scale_type == kernels::ScaleType::f16 ? kernels::float_to_f16(scale)
                                                       : kernels::float_to_bf16(scale);
  }

  ScaledCase case_;
  std::size_t rows_;
  std::size_t columns_;
  std::size_t groups_;
  std::vector<std::uint16_t> list_;
  std::vector<std::uint8_t> elements_;
  std::vector<std::uint32_t> scales_;
  std::vector<std::uint8_t> zero_points_;
  std::vector<std::uint8_t> scale_rows_;
};

}  // namespace tp::test
