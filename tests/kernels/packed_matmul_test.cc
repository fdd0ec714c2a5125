#include "model/kernels/matmul.h"
#include "model/kernels/packed_weight.h"
#include "model/kernels/simd/packed.h"
#include "tests/kernels/expect_close.h"
#include "tests/reference/kernels.h"
#include "tests/reference/random.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

namespace tp {
namespace {

using kernels::PackedLayout;
using reference::Matrix;
using reference::Random;
using reference::RandomTensor;

constexpr WeightType kPackedTypes[] = {WeightType::f16, WeightType::bf16, WeightType::int8, WeightType::int4};

// A weight as the kernels see it, and its elements as they were rounded.
struct Packed {
  PackedLayout layout;
  std::vector<std::byte> memory;
  std::vector<float> elements;  // [out_features, in_features]

  Packed(WeightType type, TensorView<const float> rows)
      : layout{type, rows.rows(), rows.columns()}, memory(layout.bytes()), elements(rows.size()) {
    kernels::pack_rows(layout, 0, rows, memory.data());
    for (std::size_t row = 0; row < rows.rows(); ++row) {
      kernels::unpack_row(view(), row, elements.data() + row * rows.columns());
    }
  }
  kernels::PackedView view() const { return {layout, memory.data()}; }
  TensorView<const float> rounded() const {
    return {elements.data(), layout.out_features, layout.in_features};
  }
};

// Activations as int8 and int4 products see them: groups of 32 in steps of their largest magnitude / 127.
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

// Operands are in [-1, 1). Float sums: as in matmul_test. Activations that are rounded to bf16 (many tokens,
// where the machine has such products) are off by 2^-9 each, quantized ones by one step more or less where
// float32 and double round a tie differently: 1/127 for an element in a few thousand.
double tolerance(WeightType type, std::size_t tokens, std::size_t in_features) {
  const auto n = static_cast<double>(in_features);
  double tolerance = 4e-7 * (n + 1);
  const bool pairs = kernels::packed_kernels().bf16_pairs != nullptr && tokens >= 16;
  if (type == WeightType::bf16 && pairs) tolerance += n * 0x1p-9;
  if (type == WeightType::int8 || type == WeightType::int4) tolerance += 1.01 / 127;
  return tolerance;
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
  std::vector<float> scratch(kernels::matmul_scratch(type, tokens, in_features) + 1);
  kernels::matmul(x.view(), packed.view(), {scratch.data(), 1, scratch.size()}, y.view());

  const bool integers = type == WeightType::int8 || type == WeightType::int4;
  const Matrix activations = integers ? quantized(x.view()) : Matrix(x.view());
  EXPECT_CLOSE(y.view(), reference::matmul(activations, Matrix(packed.rounded())),
               tolerance(type, tokens, in_features));
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (i % (out_features + padding) >= out_features) {
      ASSERT_EQ(y.memory()[i], before[i]) << i;
    }
  }
}

// Groups of 8, 4, 2 and 1 tokens share a pass over a panel; from 16 on activations may be rounded.
TEST(PackedMatmul, EqualsTheReferenceForEveryNumberOfTokens) {
  for (const WeightType type : kPackedTypes) {
    for (std::size_t tokens = 0; tokens <= 33; ++tokens) expect_product(type, tokens, 70, 21, 0);
  }
}

TEST(PackedMatmul, EqualsTheReferenceForEveryRemainderOfTheWidth) {
  for (const WeightType type : kPackedTypes) {
    for (std::size_t in_features = 1; in_features <= 132; ++in_features) {
      for (const std::size_t tokens : {1U, 3U, 17U}) expect_product(type, tokens, in_features, 5, 0);
    }
  }
}

TEST(PackedMatmul, EqualsTheReferenceForEveryNumberOfOutputs) {
  for (const WeightType type : kPackedTypes) {
    for (std::size_t out_features = 1; out_features <= 40; ++out_features) {
      for (const std::size_t tokens : {1U, 5U, 16U}) expect_product(type, tokens, 64, out_features, 0);
    }
  }
}

TEST(PackedMatmul, TakesRowsThatAreFurtherApartThanTheyAreWide) {
  for (const WeightType type : kPackedTypes) {
    for (const std::size_t tokens : {1U, 9U, 18U}) expect_product(type, tokens, 50, 21, 5);
  }
}

// Panels that do not fit into the cache together are worked on in groups, and shared by threads.
TEST(PackedMatmul, OfManyPanelsEqualsTheReference) {
  for (const WeightType type : kPackedTypes) {
    expect_product(type, 1, 1500, 333, 0);
    expect_product(type, 20, 1500, 333, 1);
  }
}

TEST(PackedMatmul, OfNoInputFeaturesIsZero) {
  for (const WeightType type : kPackedTypes) {
    for (const std::size_t tokens : {1U, 20U}) {
      std::vector<float> y(tokens * 40, std::numeric_limits<float>::quiet_NaN());
      float scratch = 0.0F;
      kernels::matmul(TensorView<const float>(nullptr, tokens, 0), {PackedLayout{type, 40, 0}, nullptr},
                      {&scratch, 1, 1}, {y.data(), tokens, 40});
      for (const float value : y) EXPECT_EQ(value, 0.0F);
    }
  }
}

// Quantized sums stay within their integers: the largest elements of both operands, of either sign.
TEST(PackedMatmul, DoesNotSaturate) {
  for (const float sign : {1.0F, -1.0F}) {
    const std::vector<float> x(64, sign);
    const std::vector<float> weight(64, -127.0F);
    const Packed packed(WeightType::int8, {weight.data(), 1, 64});
    std::vector<float> scratch(kernels::matmul_scratch(WeightType::int8, 1, 64));
    float y = 0.0F;
    kernels::matmul({x.data(), 1, 64}, packed.view(), {scratch.data(), 1, scratch.size()}, {&y, 1, 1});
    EXPECT_NEAR(y, -127.0F * 64 * sign, 0.01F);
  }
}

}  // namespace
}  // namespace tp
