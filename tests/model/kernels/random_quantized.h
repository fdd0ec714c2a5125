// Random rows of the quantized types of checkpoints, and their values by definition.
#pragma once

#include "model/kernels/code_string.h"
#include "model/kernels/half.h"
#include "model/kernels/packed_weight.h"
#include "tests/reference/random.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tp::test {

inline constexpr WeightType kQuantizedTypes[] = {WeightType::q4_k,
                                                 WeightType::q5_k,
                                                 WeightType::q6_k,
                                                 WeightType::q3_k,
                                                 WeightType::q2_k,
                                                 WeightType::q4_1,
                                                 WeightType::q5_0,
                                                 WeightType::q5_1,
                                                 WeightType::iq4_nl,
                                                 WeightType::iq4_xs,
                                                 WeightType::mxfp4,
                                                 WeightType::iq2_xxs,
                                                 WeightType::iq2_xs,
                                                 WeightType::iq2_s,
                                                 WeightType::iq3_xxs,
                                                 WeightType::iq3_s,
                                                 WeightType::iq1_s,
                                                 WeightType::iq1_m,
                                                 WeightType::tq1_0,
                                                 WeightType::tq2_0,
                                                 WeightType::nvfp4,
                                                 WeightType::int4_g32,
                                                 WeightType::int4_g64,
                                                 WeightType::int4_g128,
                                                 WeightType::int4_g256,
                                                 WeightType::int4_g32_bf16,
                                                 WeightType::int4_g64_bf16,
                                                 WeightType::int4_g128_bf16,
                                                 WeightType::int4_g256_bf16,
                                                 WeightType::int4_sym_g32,
                                                 WeightType::int4_sym_g32_bf16};

class RandomQuantized {
 public:
  static constexpr std::size_t kSuper = kernels::QuantizedRows::kColumns;

  RandomQuantized(reference::Random& random, WeightType type, std::size_t rows, std::size_t super_blocks)
      : type_(type), format_(*kernels::quant_format(type)), rows_(rows), super_blocks_(super_blocks) {
    const auto below = [&](std::size_t end) { return static_cast<std::uint8_t>(random.integer(0, end - 1)); };
    const std::size_t blocks = rows * super_blocks;
    for (std::size_t i = 0; i < blocks * kSuper; ++i)
      elements_.push_back(below(std::size_t{1} << format_.element_bits()));
    for (std::size_t i = 0; i < blocks * kernels::QuantizedRows::groups(format_); ++i) {
      const std::size_t end = format_.scales == kernels::ScaleKind::six_bits ? 64 : 256;
      scales_.push_back(format_.scales == kernels::ScaleKind::e8m0
                            ? static_cast<std::uint8_t>(random.integer(110, 124))
                            : below(end));
      offsets_.push_back(below(64));
    }
    for (std::size_t i = 0; i < blocks * kernels::QuantizedRows::halves_of(format_); ++i)
      halves_.push_back(format_.scales == kernels::ScaleKind::bf16
                            ? kernels::float_to_bf16(random.number() / 256)
                            : kernels::float_to_f16(random.number() / 256));
    if (format_.has_zero_points()) set_zero_points(random);
    if (format_.scales == kernels::ScaleKind::e4m3) set_factors(random);
  }

  WeightType type() const { return type_; }
  const kernels::QuantFormat& format() const { return format_; }
  kernels::QuantizedRows rows() {
    return {rows_, super_blocks_, elements_.data(), scales_.data(), offsets_.data(), halves_.data()};
  }

  // gguf_quantized_test compares these strings' values with the formats of files.
  auto string_of(std::size_t row, std::size_t column) const {
    const std::uint8_t* const bytes = elements_.data() + row * super_blocks_ * kSuper + column / 64 * 64;
    return kernels::CodeString(format_, [bytes](std::size_t index) { return std::uint32_t{bytes[index]}; });
  }

  // An element's value is its scale times its number plus its offset.
  double scale(std::size_t row, std::size_t column) const {
    const std::size_t group = group_of(row, column);
    const int byte = scales_[group];
    switch (format_.scales) {
      case kernels::ScaleKind::f16:
        return half(format_.has_offsets ? 2 * group : group);
      case kernels::ScaleKind::e8m0:
        return std::ldexp(1.0, byte - 128);
      case kernels::ScaleKind::bytes:
        return of_super(row, column, 0) * (byte < 128 ? byte : byte - 256);
      case kernels::ScaleKind::six_bits:
        return of_super(row, column, 0) * (type_ == WeightType::q3_k ? byte - 32 : byte);
      case kernels::ScaleKind::half_bytes:
        return of_super(row, column, 0) * (byte % 16);
      case kernels::ScaleKind::bf16:
        return kernels::bf16_to_float(halves_[group]);
      case kernels::ScaleKind::e4m3:
        return e4m3(byte) * factor(row, column);
      case kernels::ScaleKind::super:
        return of_super(row, column, 0);
      case kernels::ScaleKind::in_codes:
        return of_super(row, column, 0) * string_of(row, column).factor(column % 64 / format_.group);
      case kernels::ScaleKind::zero_point_f16:
        return half(group);
      case kernels::ScaleKind::zero_point_bf16:
        return kernels::bf16_to_float(halves_[group]);
    }
    return 0.0;
  }
  double number(std::size_t row, std::size_t column) const {
    constexpr int kIq4[] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
    constexpr int kMxfp4[] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
    const int element = elements_[row * super_blocks_ * kSuper + column];
    if (type_ == WeightType::iq4_nl || type_ == WeightType::iq4_xs) return kIq4[element];
    if (type_ == WeightType::mxfp4 || type_ == WeightType::nvfp4) return kMxfp4[element];
    if (format_.has_codes())
      return (string_of(row, column).elements(column % 64 / 4) >> (column % 4 * 8) & 255) - 128.0;
    if (type_ == WeightType::tq2_0) return element - 1;
    if (type_ == WeightType::q6_k) return element - 32;
    if (type_ == WeightType::q3_k) return element - 4;
    if (type_ == WeightType::int4_sym_g32 || type_ == WeightType::int4_sym_g32_bf16) return element - 8;
    return type_ == WeightType::q5_0 ? element - 16 : element;
  }
  double offset(std::size_t row, std::size_t column) const {
    if (!format_.has_offsets) return 0.0;
    const std::size_t group = group_of(row, column);
    if (format_.scales == kernels::ScaleKind::f16) return half(2 * group + 1);
    if (format_.has_zero_points()) return -scale(row, column) * offsets_[group];
    const int number = type_ == WeightType::q2_k ? scales_[group] / 16 : offsets_[group];
    return -of_super(row, column, 1) * number;
  }
  float value(std::size_t row, std::size_t column) const {
    const float product = static_cast<float>(scale(row, column) * number(row, column));
    return format_.has_offsets ? product + static_cast<float>(offset(row, column)) : product;
  }

 private:
  // Factors of f32 in two halves. FP8 numbers have no sign.
  void set_factors(reference::Random& random) {
    for (std::size_t i = 0; i < halves_.size(); i += 2) {
      halves_[i] = 0;
      halves_[i + 1] = kernels::float_to_bf16(random.number() / 64);
    }
    for (std::uint8_t& scale : scales_) scale %= 127;
  }
  static double e4m3(int bits) {
    const double half = bits < 8 ? std::ldexp(bits, -9) : std::ldexp(1 + bits % 8 / 8.0, bits / 8 - 7);
    return half / 2;
  }
  double factor(std::size_t row, std::size_t column) const {
    return kernels::bf16_to_float(halves_[2 * (row * super_blocks_ + column / kSuper) + 1]);
  }

  // Sets equal zero points for columns that share a scale in the file.
  void set_zero_points(reference::Random& random) {
    const std::size_t together = std::max<std::size_t>(format_.scale_group / 32, 1);
    for (std::size_t group = 0; group < halves_.size(); ++group) {
      const bool is_first = group % together == 0;
      const float scale = random.number() / 256;
      const auto zero_point = static_cast<std::uint8_t>(random.integer(0, 15));
      offsets_[group] = is_first ? zero_point : offsets_[group - 1];
      halves_[group] = !is_first                                              ? halves_[group - 1]
                       : format_.scales == kernels::ScaleKind::zero_point_f16 ? kernels::float_to_f16(scale)
                                                                              : kernels::float_to_bf16(scale);
    }
  }

  double half(std::size_t index) const { return kernels::f16_to_float(halves_[index]); }
  std::size_t group_of(std::size_t row, std::size_t column) const {
    return (row * super_blocks_ * kSuper + column) / format_.group;
  }
  double of_super(std::size_t row, std::size_t column, std::size_t which) const {
    const std::size_t super_block = row * super_blocks_ + column / kSuper;
    return half(super_block * (format_.has_offsets ? 2 : 1) + which);
  }

  WeightType type_;
  const kernels::QuantFormat& format_;
  std::size_t rows_;
  std::size_t super_blocks_;
  std::vector<std::uint8_t> elements_;
  std::vector<std::uint8_t> scales_;
  std::vector<std::uint8_t> offsets_;
  std::vector<std::uint16_t> halves_;
};

// Columns [begin, end) of such rows as a weight in memory.
struct PackedQuantized {
  kernels::PackedLayout layout;
  std::vector<std::byte> memory;

  // The rows contain the super-blocks from `begin`'s to `end`'s.
  PackedQuantized(RandomQuantized& weight, std::size_t out_features, std::size_t begin, std::size_t end,
                  std::size_t leaf = 0)
      : layout{weight.type(), out_features, end - begin, leaf > 0, leaf, begin % RandomQuantized::kSuper},
        memory(layout.bytes()) {
    kernels::pack_quantized(layout, 0, weight.rows(), memory.data());
  }
  kernels::PackedView view() const { return {layout, memory.data()}; }
};

}  // namespace tp::test
