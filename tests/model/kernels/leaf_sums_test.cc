// Products of weights with leaves, whose sums are exact.
#include "model/kernels/matmul.h"
#include "tests/model/kernels/expect_close.h"
#include "tests/reference/random.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

namespace tp {
namespace {

using kernels::PackedLayout;
using reference::Random;
using reference::RandomTensor;

constexpr WeightType kTypes[] = {WeightType::f32, WeightType::f16, WeightType::bf16, WeightType::int8,
                                 WeightType::int4};

// The product with the weight's columns [begin, end), [tokens, out_features].
std::vector<double> product(TensorView<const float> x, TensorView<const float> weight, WeightType type,
                            std::size_t leaf, std::size_t begin, std::size_t end) {
  const PackedLayout layout{type, weight.rows(), end - begin, true, leaf};
  std::vector<std::byte> memory(layout.bytes());
  const TensorView<const float> columns = weight.columns_from(begin, end - begin);
  kernels::pack_rows(layout, 0, StoredRows::of(columns), memory.data());
  std::vector<float> scratch(kernels::matmul_scratch(layout, x.rows()));
  std::vector<double> y(x.rows() * weight.rows(), 1e9);
  kernels::matmul(x.columns_from(begin, end - begin), {layout, memory.data()},
                  {scratch.data(), 1, scratch.size()}, TensorView<double>(y.data(), x.rows(), weight.rows()));
  return y;
}

struct Case {
  std::size_t leaf;
  std::size_t in_features;
};

// Whole leaves and partial ones. Heads of 7, 80 and 96 elements are not whole tiles or blocks.
constexpr Case kCases[] = {{16, 48},  {32, 160},  {64, 256},   {80, 400},
                           {96, 288}, {128, 700}, {256, 1024}, {7, 35}};

TEST(LeafSums, HaveTheBitsOfTheWholeAfterAddingSlices) {
  for (const WeightType type : kTypes) {
    for (const auto& [leaf, in] : kCases) {
      for (const std::size_t tokens : {1U, 5U, 33U, 70U}) {
        SCOPED_TRACE(testing::Message() << name_of(type) << ", " << tokens << " tokens, " << in
                                        << " features in leaves of " << leaf);
        Random random(leaf * tokens + in);
        const RandomTensor x(random, tokens, in);
        const RandomTensor weight(random, 37, in);
        const std::vector<double> whole = product(x.view(), weight.view(), type, leaf, 0, in);
        const std::size_t cut = in / leaf / 3 * leaf;
        std::vector<double> sum = product(x.view(), weight.view(), type, leaf, 0, cut);
        const std::vector<double> rest = product(x.view(), weight.view(), type, leaf, cut, in);
        for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += rest[i];
        EXPECT_EQ(sum, whole);
        for (const double value : whole) {
          const double multiple = std::ldexp(value, 30);
          ASSERT_EQ(multiple, std::round(multiple)) << "not on the grid";
        }
        const std::vector<double> last_row =
            product(x.view().rows_from(tokens - 1, 1), weight.view(), type, leaf, 0, in);
        EXPECT_TRUE(std::equal(last_row.begin(), last_row.end(), whole.end() - 37))
            << "it depends on other rows";
      }
    }
  }
}

TEST(LeafSums, AreProducts) {
  for (const WeightType type : kTypes) {
    for (const auto& [leaf, in] : kCases) {
      Random random(in);
      const RandomTensor x(random, 19, in);
      const RandomTensor weight(random, 37, in);
      const std::vector<double> y = product(x.view(), weight.view(), type, leaf, 0, in);
      // The largest error from rounding weights and activations to the type's steps, in units of a product.
      const double step = type == WeightType::f32    ? 1e-6
                          : type == WeightType::f16  ? 0x1p-11
                          : type == WeightType::bf16 ? 0x1p-7
                          : type == WeightType::int8 ? 0x1p-6
                                                     : 0x1p-3;
      const double tolerance = step * std::sqrt(static_cast<double>(in)) * 2;
      for (std::size_t token = 0; token < 19; ++token) {
        for (std::size_t row = 0; row < 37; ++row) {
          double expected = 0.0;
          for (std::size_t k = 0; k < in; ++k)
            expected += static_cast<double>(x.view()(token, k)) * static_cast<double>(weight.view()(row, k));
          ASSERT_NEAR(y[token * 37 + row], expected, tolerance)
              << name_of(type) << ", " << in << " features in leaves of " << leaf;
        }
      }
    }
  }
}

}  // namespace
}  // namespace tp
