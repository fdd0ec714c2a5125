#include "model/weights/synthetic/synthetic_scaled.h"

#include "model/weights/weight_loader.h"
#include "tests/model/weights/read_tensor.h"

#include <cmath>

#include <gtest/gtest.h>

namespace tp {
namespace {

constexpr MatrixShape kScaledShape{96, 1024};
constexpr WeightType kScaledTypes[] = {WeightType::f8_e4m3, WeightType::int8_scaled, WeightType::int4_scaled,
                                       WeightType::nf4};

std::vector<float> scaled_slice(const SyntheticScaled& source, const TensorSlice& slice) {
  return test::read_slice(source, "a.weight", kScaledShape, slice);
}

TEST(SyntheticScaled, HasTheDeviationThatKeepsActivationsInSize) {
  for (const WeightType type : kScaledTypes) {
    const std::vector<float> elements = scaled_slice(SyntheticScaled(type), TensorSlice::whole(kScaledShape));
    double sum = 0.0;
    double squares = 0.0;
    for (const float element : elements) {
      sum += element;
      squares += static_cast<double>(element) * element;
    }
    const auto count = static_cast<double>(elements.size());
    const double deviation = 1.0 / std::sqrt(static_cast<double>(kScaledShape.columns));
    EXPECT_NEAR(std::sqrt(squares / count), deviation, 0.05 * deviation) << name_of(type);
    EXPECT_LT(std::abs(sum / count), 0.15 * deviation) << name_of(type);
  }
}

// A rank's weights have the same elements as `read`, for any columns and rows.
TEST(SyntheticScaled, IsHeldInItsTypeWithTheSameElementsInEverySlice) {
  for (const WeightType type : kScaledTypes) {
    const SyntheticScaled source(type);
    const std::vector<float> whole = scaled_slice(source, TensorSlice::whole(kScaledShape));
    for (const Range columns : {Range{0, 1024}, Range{320, 704}}) {
      WeightLoader loader(source, {0, 1}, std::nullopt, {});
      const LocalWeight weight = loader.columns_of_weight({.name = "a", .shape = kScaledShape}, columns);
      EXPECT_EQ(weight.type(), type);
      std::vector<float> row(columns.size());
      for (const std::size_t index : {0U, 17U, 95U}) {
        weight.unpack_row(index, row.data());
        for (std::size_t k = 0; k < columns.size(); ++k)
          ASSERT_EQ(row[k], whole[index * kScaledShape.columns + columns.begin + k]) << name_of(type);
      }
    }
    EXPECT_NE(whole, scaled_slice(SyntheticScaled(type, 1), TensorSlice::whole(kScaledShape)));
  }
}

}  // namespace
}  // namespace tp
