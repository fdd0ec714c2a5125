#include "model/kernels/rounding.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

namespace tp::kernels {
namespace {

// The numbers of a format in ascending order, from 0. Their index is their code, so that an even code has an
// even mantissa.
void expect_nearest(const std::vector<float>& numbers, float (*round)(float)) {
  for (std::size_t code = 0; code < numbers.size(); ++code) {
    EXPECT_EQ(round(numbers[code]), numbers[code]);
    EXPECT_EQ(round(-numbers[code]), -numbers[code]);
    if (code + 1 == numbers.size()) continue;
    const float middle = (numbers[code] + numbers[code + 1]) / 2.0F;
    const float even = numbers[code % 2 == 0 ? code : code + 1];
    EXPECT_EQ(round(middle), even) << middle;
    EXPECT_EQ(round(-middle), -even) << middle;
    EXPECT_EQ(round(std::nextafter(middle, 0.0F)), numbers[code]) << middle;
    EXPECT_EQ(round(std::nextafter(middle, 1000.0F)), numbers[code + 1]) << middle;
  }
  EXPECT_EQ(round(1e30F), numbers.back());
  EXPECT_EQ(round(-1e30F), -numbers.back());
  EXPECT_EQ(round(std::numeric_limits<float>::denorm_min()), 0.0F);
}

TEST(Rounding, GivesTheNearestE2m1NumberAndEvenOnesAtTies) {
  expect_nearest({0.0F, 0.5F, 1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F}, round_to_e2m1);
}

// Codes 0 to 7 are multiples of 2^-9, the others (8 + mantissa) * 2^(exponent - 10). Code 127 is not a
// number.
TEST(Rounding, GivesTheNearestE4m3NumberAndEvenOnesAtTies) {
  std::vector<float> numbers;
  for (int code = 0; code < 127; ++code) {
    const int exponent = code / 8;
    const int mantissa = code % 8;
    numbers.push_back(exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -9)
                                    : std::ldexp(static_cast<float>(8 + mantissa), exponent - 10));
  }
  EXPECT_EQ(numbers.back(), 448.0F);
  expect_nearest(numbers, round_to_e4m3);
}

TEST(Rounding, GivesThePowerOfTwoAbove) {
  EXPECT_EQ(power_of_two_above(1.0F), 1.0F);
  EXPECT_EQ(power_of_two_above(std::nextafter(1.0F, 2.0F)), 2.0F);
  EXPECT_EQ(power_of_two_above(std::nextafter(1.0F, 0.0F)), 1.0F);
  EXPECT_EQ(power_of_two_above(0.3F), 0.5F);
  EXPECT_EQ(power_of_two_above(0x1p-126F), 0x1p-126F);
}

// Rows of these first elements and zeros, in a view with other elements after each row.
class RoundedRows : public testing::Test {
 protected:
  TensorView<float> rows(const std::vector<std::vector<float>>& first, std::size_t columns) {
    constexpr std::size_t kMore = 3;
    memory_.assign(first.size() * (columns + kMore), 0.3F);
    const TensorView<float> all(memory_.data(), first.size(), columns, columns + kMore);
    for (std::size_t row = 0; row < first.size(); ++row) {
      std::fill_n(all.row(row), columns, 0.0F);
      std::ranges::copy(first[row], all.row(row));
    }
    return all;
  }
  void TearDown() override {
    if (!memory_.empty()) {
      EXPECT_EQ(memory_.back(), 0.3F);
    }
  }

 private:
  std::vector<float> memory_;
};

// Row 0: 100 / 448 needs the scale 2^-2, so 100 is 400 of it, between 384 and 416, which are equally far:
// 384 is even. 1 is 4. 0.3 is 1.2, between 1.125 and 1.25. Row 1: 448 fits without a scale. The second block
// has its own scale, that of 1e-4: 2^-22. 1e-6 is about 4.19 of it, between 4 and 4.5.
TEST_F(RoundedRows, HaveScalesOfBlocksInFp8) {
  const TensorView<float> x = rows({{100.0F, 1.0F, -0.3F}, {448.0F, 17.0F}}, 64);
  x(1, 32) = 1e-6F;
  round_blocks_to_fp8(32, x);
  EXPECT_EQ(x(0, 0), 96.0F);
  EXPECT_EQ(x(0, 1), 1.0F);
  EXPECT_EQ(x(0, 2), -0.3125F);
  EXPECT_EQ(x(1, 0), 448.0F);
  EXPECT_EQ(x(1, 1), 16.0F);  // between 16 and 18
  EXPECT_EQ(x(1, 32), 0x1p-20F);
  EXPECT_EQ(x(1, 33), 0.0F);
}

// Row 0: 7 / 6 needs the scale 2, so 7 is 3.5, between 3 and 4, and 4 is even. 1 is 0.5, and 0.5 is 0.25,
// between 0 and 0.5. Row 1: 6 fits without a scale.
TEST_F(RoundedRows, HavePowersOfTwoAsScalesInFp4) {
  const TensorView<float> x = rows({{7.0F, 1.0F, -0.5F, 0.51F}, {-6.0F, 5.0F, 2.6F}}, 32);
  round_blocks_to_fp4(32, x);
  EXPECT_EQ(x(0, 0), 8.0F);
  EXPECT_EQ(x(0, 1), 1.0F);
  EXPECT_EQ(x(0, 2), 0.0F);
  EXPECT_EQ(x(0, 3), 1.0F);
  EXPECT_EQ(x(1, 0), -6.0F);
  EXPECT_EQ(x(1, 1), 4.0F);
  EXPECT_EQ(x(1, 2), 3.0F);
}

// Row 0: 7 / 6 = 1.1667, between 1.125 and 1.25, so 7 is 6.2 of the scale 1.125, and becomes 6. 2 is 1.78.
// Row 1: the least scale is 2^-9. 0.004 is 2.048 of it. A block has 16 elements.
TEST_F(RoundedRows, HaveE4m3ScalesInScaledFp4) {
  const TensorView<float> x = rows({{7.0F, 2.0F}, {0.004F, 0.0001F}}, 32);
  x(0, 16) = 12.0F;
  x(0, 17) = 1.0F;
  round_blocks_to_scaled_fp4(32, x);
  EXPECT_EQ(x(0, 0), 6.75F);
  EXPECT_EQ(x(0, 1), 2.25F);
  EXPECT_EQ(x(0, 16), 12.0F);
  EXPECT_EQ(x(0, 17), 1.0F);
  EXPECT_EQ(x(1, 0), 0x1p-8F);
  EXPECT_EQ(x(1, 1), 0.0F);
}

TEST_F(RoundedRows, StayAsTheyAreIfTheyAreNotWholeBlocks) {
  const TensorView<float> x = rows({{1.2345F}}, 24);
  round_blocks_to_fp8(24, x);
  round_blocks_to_fp4(24, x);
  round_blocks_to_scaled_fp4(24, x);
  EXPECT_EQ(x(0, 0), 1.2345F);
}

}  // namespace
}  // namespace tp::kernels
