#include "model/weights/synthetic/synthetic_blocks.h"

#include "tests/model/kernels/random_quantized.h"
#include "tests/model/weights/read_tensor.h"

#include <cmath>

#include <gtest/gtest.h>

namespace tp {
namespace {

constexpr MatrixShape kShape{64, 1024};

std::vector<float> read(const SyntheticBlocks& source, const TensorSlice& slice) {
  return test::read_slice(source, "a.weight", kShape, slice);
}

TEST(SyntheticBlocks, HaveTheDeviationThatKeepsActivationsInSize) {
  for (const WeightType type : test::kQuantizedTypes) {
    const std::vector<float> elements = read(SyntheticBlocks(type), TensorSlice::whole(kShape));
    double sum = 0.0;
    double squares = 0.0;
    for (const float element : elements) {
      sum += element;
      squares += static_cast<double>(element) * element;
    }
    const auto count = static_cast<double>(elements.size());
    const double deviation = 1.0 / std::sqrt(static_cast<double>(kShape.columns));
    // MXFP4's scales are powers of two.
    const double factor = type == WeightType::mxfp4 ? 1.45 : 1.15;
    EXPECT_LT(std::sqrt(squares / count), deviation * factor) << name_of(type);
    EXPECT_GT(std::sqrt(squares / count), deviation / factor) << name_of(type);
    EXPECT_LT(std::abs(sum / count), 0.25 * deviation) << name_of(type);
  }
}

TEST(SyntheticBlocks, AreTheSameInEverySlice) {
  for (const WeightType type : test::kQuantizedTypes) {
    const SyntheticBlocks source(type);
    const std::vector<float> whole = read(source, TensorSlice::whole(kShape));
    const TensorSlice slice{{3, 17}, {320, 900}};
    const std::vector<float> part = read(source, slice);
    for (std::size_t row = 0; row < slice.rows.size(); ++row) {
      for (std::size_t i = 0; i < slice.columns.size(); ++i)
        ASSERT_EQ(part[row * slice.columns.size() + i], whole[(row + 3) * kShape.columns + i + 320])
            << name_of(type);
    }
    EXPECT_NE(whole, read(SyntheticBlocks(type, 1), TensorSlice::whole(kShape)));
  }
}

TEST(SyntheticBlocks, AreHeldInTheirTypeWhereColumnsAreWholeGroups) {
  const SyntheticBlocks q4(WeightType::q4_k);
  EXPECT_EQ(q4.group_type("a.weight", {32, 1024}), WeightType::q4_k);
  EXPECT_EQ(q4.group_type("a.weight", {16, 1024}), std::nullopt);
  EXPECT_EQ(SyntheticBlocks(WeightType::q6_k).group_type("a.weight", {16, 1024}), WeightType::q6_k);
  EXPECT_EQ(q4.types().front().held_as, WeightType::q4_k);
}

}  // namespace
}  // namespace tp
