// Weights of FP8, int8 and int4 with scales of any blocks, stored in memory as in the file.
#include "model/kernels/matmul.h"
#include "model/kernels/simd/isa.h"
#include "model/kernels/simd/matmul/packed.h"
#include "model/kernels/simd/tiles/tile_product.h"
#include "tests/model/kernels/random_scaled.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tp {
namespace {

using kernels::PackedLayout;
using kernels::ScaleType;
using reference::Random;
using reference::RandomTensor;
using test::RandomScaled;
using test::ScaledCase;

// One scale, blocks that panels cut, a scale per row, groups in order and in any order, and groups that begin
// before the first column.
constexpr ScaledCase kCases[] = {
    {WeightType::f8_e4m3, ScaleType::f32, false, 1000, 1000, 0},
    {WeightType::f8_e4m3, ScaleType::f32, false, 128, 128, 0},
    {WeightType::f8_e4m3, ScaleType::f32, false, 10, 128, 77},
    {WeightType::f8_e4m3, ScaleType::bf16, false, 1, 1000, 3},
    {WeightType::f8_e4m3, ScaleType::f16, false, 7, 1, 0},
    {WeightType::int8_scaled, ScaleType::f32, false, 1, 1000, 0},
    {WeightType::int8_scaled, ScaleType::f16, true, 1, 32, 17},
    {WeightType::int8_scaled, ScaleType::bf16, true, 5, 128, 0},
    {WeightType::int8_scaled, ScaleType::f16, true, 1, 0, 0},
    {WeightType::int4_scaled, ScaleType::f16, true, 1, 0, 0},
    {WeightType::int4_scaled, ScaleType::bf16, false, 1, 0, 0},
    {WeightType::int4_scaled, ScaleType::f32, true, 1, 48, 5},
    {WeightType::nf4, ScaleType::f32, false, 1, 64, 0},
    {WeightType::nf4, ScaleType::f32, false, 1, 64, 27},
    {WeightType::nf4, ScaleType::f16, false, 3, 0, 0},
};

std::string name_of(const ScaledCase& of) {
  return fmt::format("{}, scales of type {}, blocks of {} x {} from {} on", tp::name_of(of.type),
                     static_cast<int>(of.scale_type), of.row_block, of.group, of.phase);
}

TEST(ScaledWeight, HoldsTheFormatsValuesBitForBit) {
  Random random(1);
  for (const ScaledCase& of : kCases) {
    for (const std::size_t columns : {1U, 64U, 129U, 300U}) {
      for (const std::size_t rows : {1U, 16U, 37U}) {
        RandomScaled weight(random, of, rows, columns);
        const PackedLayout layout = weight.layout();
        const std::vector<std::byte> memory = weight.packed(layout);
        std::vector<float> out(columns + 1, -7.0F);
        for (std::size_t row = 0; row < rows; ++row) {
          kernels::unpack_row({layout, memory.data()}, row, out.data());
          for (std::size_t k = 0; k < columns; ++k)
            ASSERT_EQ(out[k], weight.value(row, k)) << name_of(of) << ", " << row << ", " << k;
          ASSERT_EQ(out.back(), -7.0F);
        }
      }
    }
  }
}

// A file has a byte per element and a number per block. With a list of groups, it has half a byte, and 2.5
// bytes for each row of a group.
TEST(ScaledWeight, TakesLittleMoreMemoryThanTheFile) {
  const PackedLayout blocks{
      WeightType::f8_e4m3, 256, 4096, false, 0, 0, {.scale_rows = 1, .groups = 32, .group = 128}};
  EXPECT_LE(static_cast<double>(blocks.bytes()), 1.01 * 256 * 4096);
  const PackedLayout cut{
      WeightType::f8_e4m3, 256, 4096, false, 0, 0, {.scale_rows = 2, .groups = 33, .group = 128}};
  EXPECT_LE(static_cast<double>(cut.bytes()), 1.01 * 256 * 4096);
  const PackedLayout rows{WeightType::f8_e4m3, 256, 4096, false, 0, 0, {.groups = 1, .group = 4096}};
  EXPECT_LE(static_cast<double>(rows.bytes()), 1.01 * 256 * 4096);
  const PackedLayout int8{WeightType::int8_scaled,
                          256,
                          4096,
                          false,
                          0,
                          0,
                          {kernels::ScaledElement::bytes, ScaleType::f16, true, 16, 128, 32, 0}};
  EXPECT_LE(static_cast<double>(int8.bytes()), 1.001 * 256 * (4096 + 3 * 128));
  const PackedLayout listed{WeightType::int4_scaled,
                            256,
                            4096,
                            false,
                            0,
                            0,
                            {kernels::ScaledElement::half_bytes, ScaleType::f16, true, 16, 32, 0, 0}};
  EXPECT_LE(static_cast<double>(listed.bytes()), 1.03 * 256 * (2048 + 2.5 * 32));
  const PackedLayout nf4{WeightType::nf4,
                         256,
                         4096,
                         false,
                         0,
                         0,
                         {.element = kernels::ScaledElement::nf4, .groups = 64, .group = 64}};
  EXPECT_EQ(nf4.bytes(), 256U * (2048 + 4 * 64));
}

// Whether activations are pairs of bf16. Elements are exact in bf16.
bool uses_pairs(const ScaledCase& of) {
  return of.type == WeightType::f8_e4m3 && kernels::scaled_kernels().multiply_pairs != nullptr &&
         kernels::bf16_pairs_are_fast();
}

bool uses_tiles(std::size_t tokens) { return kernels::tile_kernels() != nullptr && tokens > 8; }

double bf16(float value) { return kernels::bf16_to_float(kernels::float_to_bf16(value)); }
double bf16_half_up(float value) {
  return std::bit_cast<float>((std::bit_cast<std::uint32_t>(value) + 0x8000U) & 0xffff0000U);
}

void expect_product(const ScaledCase& of, std::size_t tokens, std::size_t columns, std::size_t rows) {
  SCOPED_TRACE(fmt::format("{}, {} tokens, [{}, {}]", name_of(of), tokens, rows, columns));
  Random random(tokens * 1000003 + columns);
  RandomScaled weight(random, of, rows, columns);
  const PackedLayout layout = weight.layout();
  const std::vector<std::byte> memory = weight.packed(layout);
  const RandomTensor x(random, tokens, columns, 3);
  std::vector<float> scratch(kernels::matmul_scratch(layout, tokens));
  const RandomTensor y(random, tokens, rows, 2);
  const std::vector<float> before = y.memory();
  kernels::matmul(x.view(), {layout, memory.data()}, {scratch.data(), 1, scratch.size()}, y.view());
  for (std::size_t token = 0; token < tokens; ++token) {
    for (std::size_t row = 0; row < rows; ++row) {
      double expected = 0.0;
      double magnitude = 0.0;
      for (std::size_t k = 0; k < columns; ++k) {
        const float value = weight.value(row, k);
        const float input = x.view()(token, k);
        const double term = uses_tiles(tokens) ? bf16(input) * bf16_half_up(value)
                            : uses_pairs(of)   ? bf16(input) * value
                                               : static_cast<double>(input) * value;
        expected += term;
        magnitude += std::abs(term);
      }
      // A term is rounded, and then in each sum that contains it. A group's sum is rounded once more.
      const double bound = (static_cast<double>(columns) + 3) * 0x1p-24 * 1.01 * magnitude;
      ASSERT_NEAR(y.view()(token, row), expected, bound) << token << ", " << row;
    }
  }
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (i % (rows + 2) >= rows) {
      ASSERT_EQ(y.memory()[i], before[i]) << i;
    }
  }
}

TEST(ScaledWeight, ProductsMatchItsValuesUpToFloatRounding) {
  for (const ScaledCase& of : kCases) {
    for (const std::size_t columns : {1U, 31U, 129U, 600U}) {
      for (const std::size_t tokens : {1U, 2U, 3U, 5U, 17U}) expect_product(of, tokens, columns, 37);
    }
  }
}

TEST(ScaledWeight, ProductsOfManyPanelsAreShared) {
  for (const ScaledCase& of : kCases) {
    for (const std::size_t tokens : {1U, 4U, 35U}) expect_product(of, tokens, 1100, 210);
  }
}

std::vector<float> product(const PackedLayout& layout, const std::vector<std::byte>& memory,
                           TensorView<const float> x) {
  std::vector<float> scratch(kernels::matmul_scratch(layout, x.rows()));
  std::vector<float> y(x.rows() * layout.out_features);
  kernels::matmul(x, {layout, memory.data()}, {scratch.data(), 1, scratch.size()},
                  TensorView<float>(y.data(), x.rows(), layout.out_features));
  return y;
}

// Products for few tokens read panels directly. Products for many tokens widen them first.
TEST(ScaledWeight, ProductsHaveTheSameBitsInAnyBatch) {
  for (const ScaledCase& of : kCases) {
    Random random(3);
    RandomScaled weight(random, of, 37, 333);
    const PackedLayout layout = weight.layout(0, true);
    const std::vector<std::byte> memory = weight.packed(layout);
    const RandomTensor x(random, 23, 333);
    const std::vector<float> all = product(layout, memory, x.view());
    for (std::size_t row = 0; row < 23; ++row) {
      const std::vector<float> one = product(layout, memory, x.view().rows_from(row, 1));
      EXPECT_TRUE(std::equal(one.begin(), one.end(), all.begin() + static_cast<std::ptrdiff_t>(row * 37)))
          << name_of(of) << ", row " << row;
    }
  }
}

TEST(ScaledWeight, SumsOfLeavesHaveTheBitsOfFloat32Weights) {
  for (const ScaledCase& of : kCases) {
    for (const std::size_t leaf : {20U, 33U, 64U, 128U}) {
      for (const std::size_t tokens : {1U, 3U, 9U}) {
        Random random(leaf * tokens);
        RandomScaled weight(random, of, 37, 333);
        const PackedLayout layout = weight.layout(leaf, true);
        const std::vector<std::byte> memory = weight.packed(layout);
        std::vector<float> values;
        for (std::size_t i = 0; i < 37 * 333U; ++i) values.push_back(weight.value(i / 333, i % 333));
        const PackedLayout of_floats{WeightType::f32, 37, 333, true, leaf};
        std::vector<std::byte> floats(of_floats.bytes());
        kernels::pack_rows(of_floats, 0, StoredRows::of({values.data(), 37, 333}), floats.data());
        const RandomTensor x(random, tokens, 333);
        const auto sums = [&](const PackedLayout& any, const std::vector<std::byte>& of_weight) {
          std::vector<float> scratch(kernels::matmul_scratch(any, tokens));
          std::vector<double> y(tokens * 37, 1e9);
          kernels::matmul(x.view(), {any, of_weight.data()}, {scratch.data(), 1, scratch.size()},
                          TensorView<double>(y.data(), tokens, 37));
          return y;
        };
        ASSERT_EQ(sums(layout, memory), sums(of_floats, floats)) << name_of(of) << ", leaves of " << leaf;
      }
    }
  }
}

TEST(ScaledWeight, ANanOfTheFileReachesTheResult) {
  Random random(1);
  RandomScaled weight(random, kCases[1], 20, 300);
  weight.elements()[300 * 17 + 150] = 0xff;
  const PackedLayout layout = weight.layout();
  const std::vector<std::byte> memory = weight.packed(layout);
  for (const std::size_t tokens : {1U, 12U}) {
    const RandomTensor x(random, tokens, 300);
    const std::vector<float> y = product(layout, memory, x.view());
    EXPECT_TRUE(std::isnan(y[17]));
  }
}

TEST(ScaledWeight, ProductsOfNoInputFeaturesAreZero) {
  for (const ScaledCase& of : kCases) {
    if (of.group == 0) continue;
    for (const std::size_t tokens : {1U, 20U}) {
      Random random(1);
      const RandomScaled weight(random, of, 40, 0);
      for (const float value : product(weight.layout(), {}, TensorView<const float>(nullptr, tokens, 0)))
        EXPECT_EQ(value, 0.0F);
    }
  }
}

}  // namespace
}  // namespace tp
