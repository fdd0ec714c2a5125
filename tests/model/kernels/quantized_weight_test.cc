// Weights of the quantized types of checkpoints, stored in memory as in the file.
#include "model/kernels/elementwise.h"
#include "model/kernels/matmul.h"
#include "model/kernels/simd/isa.h"
#include "model/kernels/simd/matmul/packed.h"
#include "model/kernels/simd/tiles/tile_product.h"
#include "tests/model/kernels/random_quantized.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

namespace tp {
namespace {

using kernels::PackedLayout;
using reference::Random;
using reference::RandomTensor;
using test::kQuantizedTypes;
using test::PackedQuantized;
using test::RandomQuantized;

struct Slice {
  std::size_t begin;
  std::size_t end;
};

// Whole super-blocks, and slices that begin and end within super-blocks, blocks and groups.
constexpr Slice kSlices[] = {{0, 256},   {0, 768},   {64, 320}, {128, 192}, {192, 448}, {32, 288}, {96, 160},
                             {240, 528}, {224, 256}, {48, 700}, {0, 80},    {80, 160},  {32, 64}};

TEST(QuantizedWeight, HoldsTheFormatsValuesBitForBit) {
  Random random(1);
  for (const WeightType type : kQuantizedTypes) {
    for (const auto& [begin, end] : kSlices) {
      for (const std::size_t rows : {1U, 16U, 37U}) {
        RandomQuantized weight(random, type, rows, 3);
        const PackedQuantized packed(weight, rows, begin, end);
        std::vector<float> out(end - begin + 1, -7.0F);
        for (std::size_t row = 0; row < rows; ++row) {
          kernels::unpack_row(packed.view(), row, out.data());
          for (std::size_t k = begin; k < end; ++k)
            ASSERT_EQ(out[k - begin], weight.value(row, k)) << name_of(type) << ", " << row << ", " << k;
          ASSERT_EQ(out.back(), -7.0F);
        }
      }
    }
  }
}

// Bytes of 256 elements in a file. IQ4_XS has scales of 6 bits in files and of 8 in memory. NVFP4 has 144
// bytes in files, and 4 more in memory.
TEST(QuantizedWeight, NeedsNoMoreMemoryThanTheFile) {
  for (const auto& [type, stored] :
       {std::pair{WeightType::q4_k, 144}, {WeightType::q5_k, 176},  {WeightType::q6_k, 210},
        {WeightType::q3_k, 110},          {WeightType::q2_k, 84},   {WeightType::q4_1, 160},
        {WeightType::q5_0, 176},          {WeightType::q5_1, 192},  {WeightType::iq4_nl, 144},
        {WeightType::iq4_xs, 138},        {WeightType::mxfp4, 136}, {WeightType::iq2_xxs, 66},
        {WeightType::iq2_xs, 74},         {WeightType::iq2_s, 82},  {WeightType::iq3_xxs, 98},
        {WeightType::iq3_s, 110},         {WeightType::iq1_s, 50},  {WeightType::iq1_m, 56},
        {WeightType::tq1_0, 54},          {WeightType::tq2_0, 66},  {WeightType::nvfp4, 148}}) {
    EXPECT_EQ((PackedLayout{type, 32, 4096}.bytes()), 32U * 16 * static_cast<unsigned>(stored))
        << name_of(type);
    // A quarter of 11008 columns, which is not a whole number of super-blocks.
    const PackedLayout slice{type, 16, 2752, false, 0, 2752 % 256};
    EXPECT_LE(static_cast<double>(slice.bytes()), 1.012 * 16 * 2752 / 256 * stored) << name_of(type);
  }
}

// Bytes of a group in a file: its elements, a scale of 16 bits, and a zero point of 4 bits. Symmetric groups
// of compressed-tensors have no zero point. A rank's columns may begin and end within a group.
TEST(QuantizedWeight, GroupsWithZeroPointsTakeLittleMoreMemoryThanTheFile) {
  for (const auto& [type, group] : {std::pair{WeightType::int4_g32, 32},
                                    {WeightType::int4_g64, 64},
                                    {WeightType::int4_g128, 128},
                                    {WeightType::int4_g32_bf16, 32},
                                    {WeightType::int4_g64_bf16, 64},
                                    {WeightType::int4_g128_bf16, 128}}) {
    const double with_zero_points = 16 * 4096 * (0.5 + 2.5 / group);
    const double symmetric = 16 * 4096 * (0.5 + 2.0 / group);
    const PackedLayout whole{type, 16, 4096};
    EXPECT_LE(static_cast<double>(whole.bytes()), 1.03 * with_zero_points) << name_of(type);
    if (group > 32) {
      EXPECT_LE(static_cast<double>(whole.bytes()), 1.03 * symmetric) << name_of(type);
    }
    const PackedLayout slice{type, 16, 2720, false, 0, 2720 % 256};
    EXPECT_LE(static_cast<double>(slice.bytes()), 1.03 * with_zero_points * 2720 / 4096 + 16 * 64)
        << name_of(type);
  }
  // One scale for all columns of a row.
  const PackedLayout channels{WeightType::int4_g256, 16, 4096};
  EXPECT_LE(channels.bytes(), 1.03 * 16 * 4096 / 2);
}

bool uses_tiles(std::size_t tokens) { return kernels::tile_kernels() != nullptr && tokens > 12; }
bool uses_floats(std::size_t tokens) {
  return kernels::tile_kernels() == nullptr && kernels::active_isa() == kernels::Isa::portable && tokens > 16;
}

double bf16(float value) { return kernels::bf16_to_float(kernels::float_to_bf16(value)); }
double bf16_half_up(float value) {
  return std::bit_cast<float>((std::bit_cast<std::uint32_t>(value) + 0x8000U) & 0xffff0000U);
}

// Activations as integers: groups of 32 columns, counted from a super-block's beginning in the file.
struct Quantized {
  std::vector<std::int8_t> bytes;
  std::vector<float> scales;

  Quantized(const float* x, std::size_t begin, std::size_t size) {
    const std::size_t front = begin % 32;
    const std::size_t padded = (front + size + 31) / 32 * 32;
    std::vector<float> filled(padded, 0.0F);
    std::copy_n(x, size, filled.begin() + static_cast<std::ptrdiff_t>(front));
    bytes.resize(padded);
    scales.resize(padded / 32);
    std::vector<std::int32_t> corrections(padded / 32);
    kernels::packed_kernels().quantize(filled.data(), padded, 0, bytes.data(), scales.data(),
                                       corrections.data(), 1);
  }
};

struct Expected {
  double value = 0.0;
  double magnitude = 0.0;  // sum of the magnitudes of all terms
  double terms = 0.0;
};

// With integers, a group's sum is exact in double; with tiles and floats, every product.
Expected expected_product(const RandomQuantized& weight, std::size_t row, const float* x, std::size_t begin,
                          std::size_t end, std::size_t tokens) {
  Expected out;
  const auto add = [&](double term) {
    out.value += term;
    out.magnitude += std::abs(term);
    out.terms += 1;
  };
  if (uses_tiles(tokens) || uses_floats(tokens)) {
    for (std::size_t k = begin; k < end; ++k) {
      const float value = weight.value(row, k);
      add(uses_tiles(tokens) ? bf16(x[k - begin]) * bf16_half_up(value)
                             : static_cast<double>(x[k - begin]) * value);
    }
    return out;
  }
  const Quantized quantized(x, begin, end - begin);
  const std::size_t front = begin % 32;
  const std::size_t group = weight.format().group;
  for (std::size_t k = begin - begin % group; k < end; k += group) {
    double dot = 0.0;
    double sum = 0.0;
    for (std::size_t i = std::max(k, begin); i < std::min(k + group, end); ++i) {
      const double element = quantized.bytes[front + i - begin];
      dot += weight.number(row, i) * element;
      sum += element;
    }
    const double x_scale = quantized.scales[(std::max(k, begin) - begin + front) / 32];
    add(x_scale * weight.scale(row, k) * dot);
    if (weight.format().has_offsets) add(x_scale * weight.offset(row, k) * sum);
  }
  return out;
}

// Every term of a sum in float32 is rounded at most three times, u = 2^-24: as a product of two factors, of
// which one is rounded, and then in each sum that contains it.
double bound(const Expected& expected) {
  return (expected.terms + 3) * 0x1p-24 * 1.01 * expected.magnitude + 1e-30;
}

void expect_product(WeightType type, std::size_t tokens, Slice slice, std::size_t out_features) {
  SCOPED_TRACE(testing::Message() << name_of(type) << ", " << tokens << " tokens, columns " << slice.begin
                                  << " to " << slice.end << ", " << out_features << " rows");
  Random random(tokens * 1000003 + slice.begin * 1009 + slice.end);
  RandomQuantized weight(random, type, out_features, (slice.end + 255) / 256);
  const PackedQuantized packed(weight, out_features, slice.begin, slice.end);
  const RandomTensor x(random, tokens, slice.end - slice.begin, 3);
  std::vector<float> scratch(kernels::matmul_scratch(packed.layout, tokens));
  const RandomTensor y(random, tokens, out_features, 2);
  const std::vector<float> before = y.memory();
  kernels::matmul(x.view(), packed.view(), {scratch.data(), 1, scratch.size()}, y.view());
  for (std::size_t token = 0; token < tokens; ++token) {
    for (std::size_t row = 0; row < out_features; ++row) {
      const Expected expected =
          expected_product(weight, row, x.view().row(token), slice.begin, slice.end, tokens);
      ASSERT_NEAR(y.view()(token, row), expected.value, bound(expected)) << token << ", " << row;
    }
  }
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (i % (out_features + 2) >= out_features) {
      ASSERT_EQ(y.memory()[i], before[i]) << i;
    }
  }
}

TEST(QuantizedWeight, ProductsAreTheGroupsSumsUpToTheRoundingOfFloats) {
  for (const WeightType type : kQuantizedTypes) {
    for (const Slice slice : kSlices) {
      for (const std::size_t tokens : {1U, 3U, 17U}) expect_product(type, tokens, slice, 21);
    }
    for (std::size_t tokens = 2; tokens < 12; ++tokens) expect_product(type, tokens, {32, 288}, 17);
    expect_product(type, 40, {32, 600}, 17);
  }
}

TEST(QuantizedWeight, ProductsOfManyPanelsAreShared) {
  for (const WeightType type : kQuantizedTypes) {
    for (const std::size_t tokens : {1U, 9U, 35U}) expect_product(type, tokens, {64, 1100}, 210);
  }
}

// Both operands have their largest elements, with either sign.
TEST(QuantizedWeight, SumsDoNotSaturate) {
  for (const WeightType type : kQuantizedTypes) {
    for (const float sign : {1.0F, -1.0F}) {
      for (const bool is_largest : {false, true}) {
        Random random(1);
        RandomQuantized weight(random, type, 16, 1);
        const kernels::QuantizedRows rows = weight.rows();
        const int bits = weight.format().element_bits();
        const int largest = type == WeightType::mxfp4 || type == WeightType::nvfp4 ? 7 : (1 << bits) - 1;
        std::fill_n(rows.elements, 16 * 256, static_cast<std::uint8_t>(is_largest ? largest : 0));
        const PackedQuantized packed(weight, 16, 0, 256);
        for (const std::size_t tokens : {1U, 5U}) {
          const std::vector<float> x(tokens * 256, sign);
          std::vector<float> y(tokens * 16);
          std::vector<float> scratch(kernels::matmul_scratch(packed.layout, tokens));
          kernels::matmul({x.data(), tokens, 256}, packed.view(), {scratch.data(), 1, scratch.size()},
                          TensorView<float>(y.data(), tokens, 16));
          for (std::size_t row = 0; row < 16; ++row) {
            const Expected expected = expected_product(weight, row, x.data(), 0, 256, tokens);
            ASSERT_NEAR(y[row], expected.value, bound(expected)) << name_of(type);
          }
        }
      }
    }
  }
}

// A row's product does not depend on the number of rows if every number takes the same path.
TEST(QuantizedWeight, ProductsHaveTheSameBitsInAnyBatch) {
  for (const WeightType type : kQuantizedTypes) {
    Random random(3);
    RandomQuantized weight(random, type, 37, 3);
    PackedQuantized packed(weight, 37, 32, 700);
    packed.layout.same_bits = true;
    const RandomTensor x(random, 23, 668);
    const auto multiply = [&](TensorView<const float> rows) {
      std::vector<float> scratch(kernels::matmul_scratch(packed.layout, rows.rows()));
      std::vector<float> y(rows.rows() * 37);
      kernels::matmul(rows, packed.view(), {scratch.data(), 1, scratch.size()},
                      TensorView<float>(y.data(), rows.rows(), 37));
      return y;
    };
    const std::vector<float> all = multiply(x.view());
    for (std::size_t row = 0; row < 23; ++row) {
      const std::vector<float> one = multiply(x.view().rows_from(row, 1));
      EXPECT_TRUE(std::equal(one.begin(), one.end(), all.begin() + static_cast<std::ptrdiff_t>(row * 37)))
          << name_of(type) << ", row " << row;
    }
  }
}

// Leaves of a head, of blocks, and leaves that cut groups of columns out of a super-block.
TEST(QuantizedWeight, LeafSumsOfSlicesAddUpToTheBitsOfTheWhole) {
  for (const WeightType type : kQuantizedTypes) {
    for (const std::size_t leaf : {32U, 64U, 96U, 128U, 160U, 256U}) {
      const std::size_t in = 7 * leaf + 32;
      for (const std::size_t tokens : {1U, 5U}) {
        Random random(leaf * tokens);
        RandomQuantized weight(random, type, 37, (in + 255) / 256);
        const RandomTensor x(random, tokens, in);
        const auto product = [&](std::size_t begin, std::size_t end) {
          // The slice's own super-blocks.
          const std::size_t skipped = begin / 256;
          const kernels::QuantizedRows all = weight.rows();
          const PackedLayout layout{type, 37, end - begin, true, leaf, begin % 256};
          std::vector<std::byte> memory(layout.bytes());
          const std::size_t supers = all.super_blocks - skipped;
          const kernels::QuantFormat& format = weight.format();
          const std::size_t groups = kernels::QuantizedRows::groups(format);
          const std::size_t halves = kernels::QuantizedRows::halves_of(format);
          std::vector<std::uint8_t> elements;
          std::vector<std::uint8_t> scales;
          std::vector<std::uint8_t> offsets;
          std::vector<std::uint16_t> of_super;
          const auto append = [&](auto& to, const auto* from, std::size_t each) {
            for (std::size_t row = 0; row < 37; ++row) {
              const auto* first = from + (row * all.super_blocks + skipped) * each;
              to.insert(to.end(), first, first + supers * each);
            }
          };
          append(elements, all.elements, 256);
          append(scales, all.scales, groups);
          append(offsets, all.offsets, groups);
          append(of_super, all.halves, halves);
          kernels::pack_quantized(
              layout, 0, {37, supers, elements.data(), scales.data(), offsets.data(), of_super.data()},
              memory.data());
          std::vector<float> scratch(kernels::matmul_scratch(layout, tokens));
          std::vector<double> y(tokens * 37, 1e9);
          kernels::matmul(x.view().columns_from(begin, end - begin), {layout, memory.data()},
                          {scratch.data(), 1, scratch.size()}, TensorView<double>(y.data(), tokens, 37));
          return y;
        };
        const std::vector<double> whole = product(0, in);
        for (const std::size_t cut : {leaf, 3 * leaf, 5 * leaf}) {
          std::vector<double> sum = product(0, cut);
          const std::vector<double> rest = product(cut, in);
          for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += rest[i];
          ASSERT_EQ(sum, whole) << name_of(type) << ", " << tokens << " tokens, leaves of " << leaf;
        }
        // A leaf's result is rounded to 2^-30.
        for (std::size_t row = 0; row < 37; ++row) {
          Expected expected;
          const Quantized quantized(x.view().row(0), 0, in);
          for (std::size_t k = 0; k < in; ++k) {
            const double term = quantized.scales[k / 32] * static_cast<double>(quantized.bytes[k]) *
                                (weight.scale(row, k) * weight.number(row, k) + weight.offset(row, k));
            expected.value += term;
            expected.magnitude +=
                std::abs(quantized.scales[k / 32] * static_cast<double>(quantized.bytes[k])) *
                (std::abs(weight.scale(row, k) * weight.number(row, k)) + std::abs(weight.offset(row, k)));
            expected.terms += 1;
          }
          ASSERT_NEAR(whole[row], expected.value, bound(expected) + 8 * 0x1p-31);
        }
      }
    }
  }
}

TEST(QuantizedWeight, ProductsOfNoInputFeaturesAreZero) {
  for (const WeightType type : kQuantizedTypes) {
    for (const std::size_t tokens : {1U, 20U}) {
      const PackedLayout layout{type, 40, 0, false, 0, 96};
      std::vector<float> y(tokens * 40, std::numeric_limits<float>::quiet_NaN());
      std::vector<float> scratch(kernels::matmul_scratch(layout, tokens));
      kernels::matmul(TensorView<const float>(nullptr, tokens, 0), {layout, nullptr},
                      {scratch.data(), 1, scratch.size()}, {y.data(), tokens, 40});
      for (const float value : y) EXPECT_EQ(value, 0.0F);
    }
  }
}

}  // namespace
}  // namespace tp
