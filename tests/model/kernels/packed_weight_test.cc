#include "model/kernels/packed_weight.h"

#include "model/kernels/half.h"
#include "tests/reference/random.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

namespace tp::kernels {
namespace {

using reference::Random;
using reference::RandomTensor;

constexpr WeightType kTypes[] = {WeightType::f32, WeightType::f16, WeightType::bf16, WeightType::int8,
                                 WeightType::int4};

std::vector<float> packed_and_unpacked(WeightType type, TensorView<const float> rows) {
  const PackedLayout layout{type, rows.rows(), rows.columns()};
  std::vector<std::byte> memory(layout.bytes());
  pack_rows(layout, 0, StoredRows::of(rows), memory.data());
  std::vector<float> out(rows.size());
  for (std::size_t row = 0; row < rows.rows(); ++row) {
    unpack_row({layout, memory.data()}, row, out.data() + row * rows.columns());
  }
  return out;
}

float largest_of_group(TensorView<const float> rows, std::size_t row, std::size_t column) {
  const std::size_t begin = column / PackedLayout::kGroup * PackedLayout::kGroup;
  float largest = 0.0F;
  for (std::size_t k = begin; k < std::min(begin + PackedLayout::kGroup, rows.columns()); ++k) {
    largest = std::max(largest, std::abs(rows(row, k)));
  }
  return largest;
}

// Returns the largest error of an element. 16-bit types: half a unit in the last place. int8: half a step of
// the group's scale, largest / 127, plus 127 times the rounding of this scale to f16 (2^-11). int4: the same
// with largest / 8 and 8, but a whole step at the far end of the scale, which lacks +8.
float bound(WeightType type, float value, float largest) {
  switch (type) {
    case WeightType::f32:
      return 0.0F;
    case WeightType::f16:
      return std::abs(value) * 0x1p-11F + 0x1p-25F;
    case WeightType::bf16:
      return std::abs(value) * 0x1p-8F;
    case WeightType::int8:
      return largest * (0.5F / 127 + 0x1p-11F) + 0x1p-24F * 127;
    case WeightType::int4:
      return largest * (1.0F / 8 + 0x1p-11F) + 0x1p-24F * 8;
    default:
      return 0.0F;  // see quantized_weight_test.cc
  }
}

TEST(PackedWeight, HoldsEveryElementUpToTheRoundingOfItsType) {
  Random random(1);
  for (const WeightType type : kTypes) {
    for (const std::size_t rows : {1U, 15U, 16U, 17U, 40U}) {
      for (std::size_t columns = 1; columns <= 130; columns += columns < 5 ? 1 : 7) {
        const RandomTensor weight(random, rows, columns, 3);
        const std::vector<float> out = packed_and_unpacked(type, weight.view());
        for (std::size_t i = 0; i < out.size(); ++i) {
          const std::size_t row = i / columns;
          const std::size_t column = i % columns;
          const float value = weight.view()(row, column);
          ASSERT_LE(std::abs(out[i] - value),
                    bound(type, value, largest_of_group(weight.view(), row, column)))
              << name_of(type) << " [" << rows << ", " << columns << "] at " << row << ", " << column;
        }
      }
    }
  }
}

TEST(PackedWeight, KeepsValuesThatItsTypeCanRepresent) {
  std::vector<float> values;
  for (int i = -60; i < 68; ++i) values.push_back(static_cast<float>(i) * 0.125F);
  const TensorView<const float> rows(values.data(), 2, 64);
  for (const WeightType type : {WeightType::f32, WeightType::f16, WeightType::bf16}) {
    EXPECT_EQ(packed_and_unpacked(type, rows), values) << name_of(type);
  }
}

// A group with the scale and elements of Q8_0 and Q4_0 is stored unchanged.
TEST(PackedWeight, TakesOverQuantizedGroupsExactly) {
  std::vector<float> eight;
  std::vector<float> four;
  for (int i = 0; i < 32; ++i) {
    eight.push_back(static_cast<float>(i == 5 ? -127 : i * 8 - 124) * 0.0625F);
    four.push_back(static_cast<float>(i == 7 ? -8 : i % 16 - 8) * 0.25F);
  }
  EXPECT_EQ(packed_and_unpacked(WeightType::int8, {eight.data(), 1, 32}), eight);
  EXPECT_EQ(packed_and_unpacked(WeightType::int4, {four.data(), 1, 32}), four);
}

std::vector<std::byte> packed(WeightType type, const StoredRows& rows) {
  const PackedLayout layout{type, rows.rows, rows.columns};
  std::vector<std::byte> memory(layout.bytes());
  pack_rows(layout, 0, rows, memory.data());
  return memory;
}

// Compares every bit, in whole and partial strips.
TEST(PackedWeight, HasTheSameBytesFromHalvesAndFloats) {
  Random random(2);
  for (const std::size_t rows : {5U, 16U, 40U}) {
    for (const std::size_t columns : {1U, 63U, 64U, 100U, 640U}) {
      const RandomTensor numbers(random, rows, columns, 3);
      for (const DType stored : {DType::f16, DType::bf16}) {
        std::vector<std::uint16_t> halves;
        std::vector<float> floats;
        for (std::size_t i = 0; i < rows * columns; ++i) {
          const float number = numbers.view()(i / columns, i % columns);
          halves.push_back(stored == DType::f16 ? float_to_f16(number) : float_to_bf16(number));
          floats.push_back(stored == DType::f16 ? f16_to_float(halves[i]) : bf16_to_float(halves[i]));
        }
        const StoredRows as_halves{stored, reinterpret_cast<const std::byte*>(halves.data()), rows, columns,
                                   columns * sizeof(halves[0])};
        const TensorView<const float> as_floats(floats.data(), rows, columns);
        for (const WeightType type : kTypes) {
          EXPECT_EQ(packed(type, as_halves), packed(type, StoredRows::of(as_floats)))
              << name_of(type) << " [" << rows << ", " << columns << "]";
        }
      }
    }
  }
}

TEST(PackedWeight, RoundsToF16AsOneNumberIsRounded) {
  std::vector<float> values;
  for (std::uint32_t i = 0; i < 40000; ++i)
    values.push_back(std::bit_cast<float>(i * 107374U + (i % 3 << 12)));
  const std::vector<std::byte> memory =
      packed(WeightType::f16, StoredRows::of(TensorView<const float>(values.data(), 1, values.size())));
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint16_t half = 0;
    std::memcpy(&half, memory.data() + i * PackedLayout::kPanel * sizeof(half), sizeof(half));
    ASSERT_EQ(half, float_to_f16(values[i])) << values[i];
  }
}

// If two elements have the largest magnitude, 4 bits hold the first one exactly. The scale's other end is 7,
// not 8.
TEST(PackedWeight, WithInt4KeepsTheFirstOfTwoLargestElements) {
  for (const float first : {2.0F, -2.0F}) {
    for (const std::size_t place : {0U, 3U, 15U, 16U, 30U}) {
      std::vector<float> values(3 * 32, 0.25F);
      values[32 + place] = first;
      values[32 + 31] = -first;
      const std::vector<float> out = packed_and_unpacked(WeightType::int4, {values.data(), 1, values.size()});
      EXPECT_EQ(out[32 + place], first) << place;
      EXPECT_EQ(out[32 + 31], -first * 7 / 8) << place;
    }
  }
}

// The group's scale ignores NaN.
TEST(PackedWeight, WithInt8StoresNanAsZero) {
  std::vector<float> values(64, 0.5F);
  values[3] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> out = packed_and_unpacked(WeightType::int8, {values.data(), 1, values.size()});
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(out[i], i == 3 ? 0.0F : 0.5F, 1e-3F) << i;
}

TEST(PackedWeight, KeepsZeros) {
  const std::vector<float> zeros(3 * 70, 0.0F);
  for (const WeightType type : kTypes) EXPECT_EQ(packed_and_unpacked(type, {zeros.data(), 3, 70}), zeros);
}

TEST(PackedWeight, TakesTheMemoryOfItsType) {
  const auto bytes = [](WeightType type) { return PackedLayout{type, 64, 128}.bytes(); };
  EXPECT_EQ(bytes(WeightType::f32), 64U * 128 * 4);
  EXPECT_EQ(bytes(WeightType::f16), 64U * 128 * 2);
  EXPECT_EQ(bytes(WeightType::bf16), 64U * 128 * 2);
  EXPECT_EQ(bytes(WeightType::int8), 64U * 128 / 32 * 34);
  EXPECT_EQ(bytes(WeightType::int4), 64U * 128 / 32 * 18);
}

TEST(Half, RoundTripsEveryF16AndBf16) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    if (std::isnan(f16_to_float(half))) {
      ASSERT_TRUE(std::isnan(f16_to_float(float_to_f16(f16_to_float(half)))));
    } else {
      ASSERT_EQ(float_to_f16(f16_to_float(half)), half) << bits;
    }
    if (std::isnan(bf16_to_float(half))) {
      ASSERT_TRUE(std::isnan(bf16_to_float(float_to_bf16(bf16_to_float(half)))));
    } else {
      ASSERT_EQ(float_to_bf16(bf16_to_float(half)), half) << bits;
    }
  }
}

TEST(Half, RoundsToTheNearestAndTiesToEven) {
  EXPECT_EQ(f16_to_float(float_to_f16(1.0F + 0x1p-11F)), 1.0F);                // a tie, down to even
  EXPECT_EQ(f16_to_float(float_to_f16(1.0F + 3 * 0x1p-11F)), 1.0F + 0x1p-9F);  // a tie, up to even
  EXPECT_EQ(f16_to_float(float_to_f16(1.0F + 0x1.1p-11F)), 1.0F + 0x1p-10F);
  EXPECT_EQ(f16_to_float(float_to_f16(0x1p-24F)), 0x1p-24F);  // the smallest
  EXPECT_EQ(f16_to_float(float_to_f16(0x1p-25F)), 0.0F);      // a tie, down to zero
  EXPECT_TRUE(std::isinf(f16_to_float(float_to_f16(65520.0F))));
  EXPECT_EQ(f16_to_float(float_to_f16(65519.0F)), 65504.0F);
  EXPECT_EQ(bf16_to_float(float_to_bf16(1.0F + 0x1p-8F)), 1.0F);
  EXPECT_EQ(bf16_to_float(float_to_bf16(1.0F + 3 * 0x1p-8F)), 1.0F + 0x1p-6F);
}

// Our rounding would not give these groups, because their largest element is not at the end of the scale.
TEST(PackedWeight, KeepsQuantizedGroupsUnchanged) {
  Random random(6);
  for (const WeightType type : {WeightType::int8, WeightType::int4}) {
    const std::size_t end = type == WeightType::int8 ? 128 : 8;  // elements are in [-end, end)
    for (const std::size_t rows : {1U, 16U, 37U}) {
      for (const std::size_t columns : {32U, 64U, 96U}) {
        std::vector<std::int8_t> elements(rows * columns);
        std::vector<std::uint16_t> scales(rows * columns / 32);
        for (std::int8_t& element : elements)
          element = static_cast<std::int8_t>(static_cast<int>(random.integer(0, 2 * end - 1)) -
                                             static_cast<int>(end));
        for (std::uint16_t& scale : scales) scale = float_to_f16(random.number());
        const PackedLayout layout{type, rows, columns};
        std::vector<std::byte> memory(layout.bytes());
        pack_groups(layout, 0, {{elements.data(), rows, columns}, {scales.data(), rows, columns / 32}},
                    memory.data());
        std::vector<float> out(columns);
        for (std::size_t row = 0; row < rows; ++row) {
          unpack_row({layout, memory.data()}, row, out.data());
          for (std::size_t k = 0; k < columns; ++k) {
            const std::size_t i = row * columns + k;
            ASSERT_EQ(out[k], static_cast<float>(elements[i]) * f16_to_float(scales[i / 32]));
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace tp::kernels
