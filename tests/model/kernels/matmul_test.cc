#include "model/kernels/matmul.h"

#include "model/kernels/elementwise.h"
#include "model/kernels/half.h"
#include "model/kernels/packed_weight.h"
#include "model/kernels/simd/isa.h"
#include "model/kernels/simd/matmul/packed.h"
#include "model/kernels/simd/tiles/tile_product.h"
#include "tests/model/kernels/expect_close.h"
#include "tests/reference/kernels.h"
#include "tests/reference/random.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

namespace tp {
namespace {

using kernels::PackedLayout;
using reference::Matrix;
using reference::Random;
using reference::RandomTensor;

constexpr WeightType kTypes[] = {WeightType::f32, WeightType::f16, WeightType::bf16, WeightType::int8,
                                 WeightType::int4};

// A weight for the kernels, and its rounded elements.
struct Packed {
  PackedLayout layout;
  std::vector<std::byte> memory;
  std::vector<float> elements;  // [out_features, in_features]

  Packed(WeightType type, TensorView<const float> rows)
      : layout{type, rows.rows(), rows.columns()}, memory(layout.bytes()), elements(rows.size()) {
    kernels::pack_rows(layout, 0, StoredRows::of(rows), memory.data());
    for (std::size_t row = 0; row < rows.rows(); ++row) {
      kernels::unpack_row(view(), row, elements.data() + row * rows.columns());
    }
  }
  kernels::PackedView view() const { return {layout, memory.data()}; }
  TensorView<const float> rounded() const {
    return {elements.data(), layout.out_features, layout.in_features};
  }
};

// Rounds activations like int8 and int4 products do: groups of 32 in steps of their largest magnitude / 127.
Matrix quantized(TensorView<const float> x) {
  Matrix out{Matrix(x)};
  for (std::size_t row = 0; row < out.rows; ++row) {
    for (std::size_t begin = 0; begin < out.columns; begin += PackedLayout::kGroup) {
      const std::size_t end = std::min(begin + PackedLayout::kGroup, out.columns);
      double largest = 0.0;
      for (std::size_t k = begin; k < end; ++k) largest = std::max(largest, std::abs(out(row, k)));
      const double scale = largest / 127;
      for (std::size_t k = begin; k < end; ++k) {
        if (scale > 0) out(row, k) = std::nearbyint(out(row, k) / scale) * scale;
      }
    }
  }
  return out;
}

bool is_integer(WeightType type) { return type == WeightType::int8 || type == WeightType::int4; }

// Whether activations are rounded to bf16, for products of tiles or of pairs.
bool uses_tiles(WeightType type, std::size_t tokens) {
  return kernels::tile_kernels() != nullptr && type != WeightType::f32 &&
         tokens > (is_integer(type)          ? 12U
                   : type == WeightType::f16 ? 16U
                                             : 4U);
}
bool uses_pairs(WeightType type, std::size_t tokens) {
  return kernels::packed_kernels().bf16_pairs != nullptr && kernels::bf16_pairs_are_fast() &&
         type == WeightType::bf16 && tokens > 2;
}

// Whether activations are quantized to bytes.
bool uses_bytes(WeightType type, std::size_t tokens) {
  const bool blas = kernels::active_isa() == kernels::Isa::portable && tokens > 16;
  return is_integer(type) && !uses_tiles(type, tokens) && !blas;
}

// Rounds activations like the product does.
Matrix activations(WeightType type, TensorView<const float> x) {
  Matrix out{Matrix(x)};
  if (uses_tiles(type, x.rows()) || uses_pairs(type, x.rows())) {
    for (double& value : out.values) {
      value = kernels::bf16_to_float(kernels::float_to_bf16(static_cast<float>(value)));
    }
    return out;
  }
  return uses_bytes(type, x.rows()) ? quantized(x) : out;
}

// Rounds weights like the product does: for tiles, int8 and int4 elements times their scale are rounded to
// bf16, ties away from zero.
Matrix weights(WeightType type, TensorView<const float> weight, std::size_t tokens) {
  Matrix out(weight);
  if (!is_integer(type) || !uses_tiles(type, tokens)) return out;
  for (double& value : out.values) {
    const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value)) + 0x8000U;
    value = std::bit_cast<float>(bits & 0xffff0000U);
  }
  return out;
}

// Operands are in [-1, 1): n products of at most 1 and their sum round by at most n^2 ulp; in practice, the
// errors' signs differ, and the sum of n terms is near sqrt(n). 4e-7 per term is three times the observed
// error. Quantized activations may be off by one step where float32 and double round a tie differently: 1/127
// for an element in a few thousand.
double tolerance(WeightType type, std::size_t tokens, std::size_t in_features) {
  const double sums = 4e-7 * static_cast<double>(in_features + 1);
  return uses_bytes(type, tokens) ? sums + 1.01 / 127 : sums;
}

void expect_product(WeightType type, std::size_t tokens, std::size_t in_features, std::size_t out_features,
                    std::size_t padding) {
  SCOPED_TRACE(testing::Message() << name_of(type) << ", " << tokens << " tokens, " << in_features << " -> "
                                  << out_features << ", padding " << padding);
  Random random(tokens * 1000003 + in_features * 1009 + out_features);
  const RandomTensor x(random, tokens, in_features, padding);
  const RandomTensor weight(random, out_features, in_features);
  const Packed packed(type, weight.view());
  RandomTensor y(random, tokens, out_features, padding);
  const std::vector<float> before = y.memory();
  std::vector<float> scratch(kernels::matmul_scratch(packed.layout, tokens));
  kernels::matmul(x.view(), packed.view(), {scratch.data(), 1, scratch.size()}, y.view());

  EXPECT_CLOSE(y.view(),
               reference::matmul(activations(type, x.view()), weights(type, packed.rounded(), tokens)),
               tolerance(type, tokens, in_features));
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (i % (out_features + padding) >= out_features) {
      ASSERT_EQ(y.memory()[i], before[i]) << i;
    }
  }
}

// Up to 8 tokens (f32: 12) share a pass over a panel, 16 share a tile, and 32 share a block of tiles.
// Activations of many tokens are rounded.
TEST(Matmul, EqualsTheReferenceForEveryNumberOfTokens) {
  for (const WeightType type : kTypes) {
    for (std::size_t tokens = 0; tokens <= 65; ++tokens) expect_product(type, tokens, 70, 21, 0);
  }
}

TEST(Matmul, EqualsTheReferenceForEveryRemainderOfTheWidth) {
  for (const WeightType type : kTypes) {
    for (std::size_t in_features = 1; in_features <= 132; ++in_features) {
      for (const std::size_t tokens : {1U, 3U, 8U, 17U}) expect_product(type, tokens, in_features, 5, 0);
    }
  }
}

TEST(Matmul, EqualsTheReferenceForEveryNumberOfOutputs) {
  for (const WeightType type : kTypes) {
    for (std::size_t out_features = 1; out_features <= 40; ++out_features) {
      for (const std::size_t tokens : {1U, 5U, 20U}) expect_product(type, tokens, 64, out_features, 0);
    }
  }
}

TEST(Matmul, TakesRowsThatAreFurtherApartThanTheyAreWide) {
  for (const WeightType type : kTypes) {
    for (const std::size_t tokens : {1U, 9U, 18U}) expect_product(type, tokens, 50, 21, 5);
  }
}

// Panels that don't fit into the cache together are processed in groups, which threads share.
TEST(Matmul, EqualsTheReferenceForManyPanels) {
  for (const WeightType type : kTypes) {
    expect_product(type, 1, 1500, 333, 0);
    expect_product(type, 20, 1500, 333, 1);
  }
}

// Sums of tiles are in registers over a slab of 256 features, or all of them, and wait for the next.
TEST(Matmul, EqualsTheReferenceForManyFeatures) {
  for (const WeightType type : kTypes) {
    expect_product(type, 20, 2081, 17, 0);
    expect_product(type, 45, 4129, 49, 0);
    expect_product(type, 40, 2050, 209, 3);
  }
}

// Exceeds the tiles' limits: tokens of a chunk, panels of a group, features of a slab.
TEST(Matmul, InSeveralPassesEqualsTheReference) {
  for (const WeightType type : kTypes) {
    expect_product(type, 531, 290, 50, 0);
    expect_product(type, 70, 600, 553, 5);
  }
}

TEST(Matmul, GatedEqualsTheActivatedProduct) {
  for (const WeightType type : kTypes) {
    for (const auto& [tokens, in_features, size] :
         {std::array<std::size_t, 3>{17, 40, 16}, {33, 300, 48}, {530, 520, 320}, {530, 40, 1024}}) {
      Random random(tokens);
      const RandomTensor x(random, tokens, in_features);
      const RandomTensor rows(random, 2 * size, in_features);
      const Packed weight(type, rows.view());
      if (!kernels::can_gate(weight.layout, tokens)) {
        EXPECT_TRUE(type == WeightType::f32 || kernels::tile_kernels() == nullptr);
        continue;
      }
      std::vector<float> scratch(kernels::matmul_gated_scratch(weight.layout, tokens));
      const TensorView<float> scratch_view(scratch.data(), 1, scratch.size());
      std::vector<float> both(tokens * 2 * size);
      kernels::matmul(x.view(), weight.view(), scratch_view, {both.data(), tokens, 2 * size});
      std::vector<float> expected(tokens * size);
      kernels::activate_and_multiply(kernels::Activation::gelu, {both.data(), tokens, 2 * size},
                                     {expected.data(), tokens, size});
      std::vector<float> y(tokens * size, std::numeric_limits<float>::quiet_NaN());
      kernels::matmul_gated(x.view(), weight.view(), kernels::Activation::gelu, scratch_view,
                            TensorView<float>(y.data(), tokens, size));
      for (std::size_t i = 0; i < tokens * size; ++i)
        ASSERT_NEAR(y[i], expected[i], 1e-6F * (1 + std::abs(expected[i]))) << i;
    }
  }
}

// A gated product can write its output as tiles for the next product. The tiles hold the values that the next
// product would have rounded itself, and zeros after the last token.
TEST(Matmul, GatedWritesTilesForTheNextProduct) {
  for (const WeightType type : kTypes) {
    for (const auto& [tokens, in_features, size] :
         {std::array<std::size_t, 3>{17, 40, 32}, {33, 300, 96}, {531, 520, 320}, {49, 64, 1024}}) {
      Random random(tokens);
      const RandomTensor x(random, tokens, in_features);
      const RandomTensor rows(random, 2 * size, in_features);
      const RandomTensor next_rows(random, 40, size);
      const Packed weight(type, rows.view());
      const Packed next(type, next_rows.view());
      if (!kernels::can_gate(weight.layout, tokens) || !kernels::takes_tiles(next.layout, tokens)) continue;
      std::vector<float> scratch(std::max(kernels::matmul_gated_scratch(weight.layout, tokens),
                                          kernels::matmul_scratch(next.layout, tokens)));
      const TensorView<float> scratch_view(scratch.data(), 1, scratch.size());
      std::vector<float> gated(tokens * size);
      kernels::matmul_gated(x.view(), weight.view(), kernels::Activation::silu, scratch_view,
                            TensorView<float>(gated.data(), tokens, size));
      std::vector<float> expected(tokens * 40);
      kernels::matmul({gated.data(), tokens, size}, next.view(), scratch_view, {expected.data(), tokens, 40});

      struct alignas(64) Line {
        std::uint32_t words[16];
      };
      std::vector<Line> lines(kernels::tiled_words(tokens, size) / 16);
      std::memset(lines.data(), 0xff, lines.size() * sizeof(Line));  // NaN
      const kernels::TiledRows tiles{lines[0].words, tokens, size};
      kernels::matmul_gated(x.view(), weight.view(), kernels::Activation::silu, scratch_view, tiles);
      std::vector<float> y(tokens * 40);
      kernels::matmul(tiles, next.view(), scratch_view, {y.data(), tokens, 40});
      EXPECT_EQ(y, expected) << name_of(type) << ", " << tokens << " tokens, size " << size;

      std::vector<std::uint32_t> rounded(kernels::tiled_words(tokens, size));
      for (std::size_t token = 0; token < tokens; token += kernels::kTileBlock)
        kernels::tile_kernels()->round_block(gated.data(), size, tokens, size, token, rounded.data());
      EXPECT_EQ(std::memcmp(rounded.data(), tiles.words, rounded.size() * sizeof(std::uint32_t)), 0);
    }
  }
}

TEST(Matmul, NeedsNoMoreScratchForFewerTokens) {
  for (const WeightType type : kTypes) {
    for (const std::size_t in_features : {1U, 40U, 64U, 1000U, 2048U, 11008U}) {
      for (std::size_t tokens = 1; tokens < 70; ++tokens) {
        EXPECT_LE(kernels::matmul_scratch({type, 40, in_features}, tokens - 1),
                  kernels::matmul_scratch({type, 40, in_features}, tokens))
            << name_of(type) << ", " << tokens << " tokens of " << in_features;
      }
    }
  }
}

TEST(Matmul, IsZeroWithoutInputFeatures) {
  for (const WeightType type : kTypes) {
    for (const std::size_t tokens : {1U, 20U}) {
      std::vector<float> y(tokens * 40, std::numeric_limits<float>::quiet_NaN());
      std::vector<float> scratch(kernels::matmul_scratch(PackedLayout{type, 40, 0}, tokens));
      kernels::matmul(TensorView<const float>(nullptr, tokens, 0), {PackedLayout{type, 40, 0}, nullptr},
                      {scratch.data(), 1, scratch.size()}, {y.data(), tokens, 40});
      for (const float value : y) EXPECT_EQ(value, 0.0F);
    }
  }
}

// Quantized sums stay within their integers for the largest elements of both operands with either sign.
// Scales are 1 and every sum fits in a float, so no instruction set may differ by a bit.
TEST(Matmul, IsExactForIntegersWithEveryInstructionSet) {
  constexpr std::size_t kOut = 37;
  for (const auto& [type, largest] : {std::pair{WeightType::int8, 127}, {WeightType::int4, -8}}) {
    for (const std::size_t in : {32U, 96U, 512U}) {
      for (const std::size_t tokens : {1U, 2U, 5U, 16U, 40U}) {
        Random random(in + tokens);
        const auto integers = [&](std::size_t rows, int peak) {
          const int magnitude = std::abs(peak);
          std::vector<float> values = RandomTensor(random, rows, in).memory();
          for (std::size_t i = 0; i < values.size(); ++i) {
            values[i] = std::clamp(std::nearbyint(values[i] * 40), 1.0F - static_cast<float>(magnitude),
                                   static_cast<float>(magnitude) - 1);
            if (i % PackedLayout::kGroup == 0) values[i] = static_cast<float>(peak);  // makes the scale 1
          }
          return values;
        };
        const std::vector<float> w = integers(kOut, largest);
        const std::vector<float> x = integers(tokens, 127);
        const Packed packed(type, {w.data(), kOut, in});
        ASSERT_TRUE(std::ranges::equal(packed.elements, w));
        std::vector<float> scratch(kernels::matmul_scratch(packed.layout, tokens));
        std::vector<float> y(tokens * kOut);
        kernels::matmul({x.data(), tokens, in}, packed.view(), {scratch.data(), 1, scratch.size()},
                        {y.data(), tokens, kOut});
        for (std::size_t token = 0; token < tokens; ++token) {
          for (std::size_t out = 0; out < kOut; ++out) {
            std::int64_t sum = 0;
            for (std::size_t k = 0; k < in; ++k)
              sum +=
                  static_cast<std::int64_t>(w[out * in + k]) * static_cast<std::int64_t>(x[token * in + k]);
            ASSERT_EQ(y[token * kOut + out], static_cast<float>(sum))
                << name_of(type) << ", " << in << " features";
          }
        }
      }
    }
  }
}

TEST(Matmul, DoesNotSaturate) {
  for (const float sign : {1.0F, -1.0F}) {
    const std::vector<float> x(64, sign);
    const std::vector<float> weight(64, -127.0F);
    const Packed packed(WeightType::int8, {weight.data(), 1, 64});
    std::vector<float> scratch(kernels::matmul_scratch(packed.layout, 1));
    float y = 0.0F;
    kernels::matmul({x.data(), 1, 64}, packed.view(), {scratch.data(), 1, scratch.size()}, {&y, 1, 1});
    EXPECT_NEAR(y, -127.0F * 64 * sign, 0.01F);
  }
}

}  // namespace
}  // namespace tp
