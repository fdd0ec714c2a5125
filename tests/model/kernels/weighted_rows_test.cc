// Sums of a weight's rows, against doubles, and their bits for any division of the rows.
#include "model/kernels/weighted_rows.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace tp {
namespace {

constexpr std::size_t kProbabilityRows = 150;
constexpr std::size_t kSize = 37;

struct WeightedRows {
  std::vector<float> weight;   // [kProbabilityRows, kSize]
  std::vector<float> factors;  // [3, kProbabilityRows]
};

WeightedRows weighted_rows() {
  std::mt19937 random(4);
  std::normal_distribution<float> normal(0.0F, 0.5F);
  WeightedRows made{std::vector<float>(kProbabilityRows * kSize), std::vector<float>(3 * kProbabilityRows)};
  for (float& element : made.weight) element = normal(random);
  for (float& factor : made.factors) factor = std::exp(-10.0F * std::abs(normal(random)));
  std::fill_n(made.factors.begin() + kProbabilityRows, kProbabilityRows, 0.0F);  // a row without factors
  made.factors[kProbabilityRows + 80] = 0.5F;
  return made;
}

// The sums over rows [begin, end), [3, kSize + 1].
std::vector<double> sums_over(const WeightedRows& made, std::size_t begin, std::size_t end) {
  const std::vector<float> own(made.weight.begin() + static_cast<std::ptrdiff_t>(begin * kSize),
                               made.weight.begin() + static_cast<std::ptrdiff_t>(end * kSize));
  const kernels::PackedLayout layout{WeightType::f32, end - begin, kSize};
  std::vector<std::byte> packed(layout.bytes());
  const TensorView<const float> rows(own.data(), end - begin, kSize);
  kernels::pack_rows(layout, 0, StoredRows::of(rows), packed.data());
  const TensorView<const float> factors(made.factors.data() + begin, 3, end - begin, kProbabilityRows);
  std::vector<double> sums(3 * (kSize + 1), 99.0);
  kernels::sum_weighted_rows({layout, packed.data()}, factors, TensorView<double>(sums.data(), 3, kSize + 1));
  return sums;
}

TEST(WeightedRows, AddUpToTheProducts) {
  const WeightedRows made = weighted_rows();
  const std::vector<double> sums = sums_over(made, 0, kProbabilityRows);
  for (std::size_t i = 0; i < 3; ++i) {
    for (std::size_t column = 0; column <= kSize; ++column) {
      double expected = 0.0;
      for (std::size_t row = 0; row < kProbabilityRows; ++row) {
        const double element = column == kSize ? 1.0 : made.weight[row * kSize + column];
        expected += made.factors[i * kProbabilityRows + row] * element;
      }
      EXPECT_NEAR(sums[i * (kSize + 1) + column], expected, kProbabilityRows * 0x1p-31)
          << i << ", " << column;
    }
  }
}

TEST(WeightedRows, HaveTheSameBitsForAnyDivisionOfTheRows) {
  const WeightedRows made = weighted_rows();
  const std::vector<double> whole = sums_over(made, 0, kProbabilityRows);
  for (const std::size_t cut : {1, 63, 64, 65, 149}) {
    const std::vector<double> first = sums_over(made, 0, cut);
    const std::vector<double> second = sums_over(made, cut, kProbabilityRows);
    for (std::size_t i = 0; i < whole.size(); ++i)
      EXPECT_EQ(first[i] + second[i], whole[i]) << cut << ", " << i;
  }
}

}  // namespace
}  // namespace tp
