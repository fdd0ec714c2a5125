// Values in the format between hosts.
#include "parallel/exchange/wire_format.h"

#include "tests/parallel/exchange/sent_values.h"
#include "tests/reference/random.h"

#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

namespace tp {
namespace {

using test::sent;

std::vector<float> values_of(std::size_t size) { return reference::Random(size).numbers(size); }

TEST(WireFormat, F32LosesNothing) {
  for (const std::size_t size : {0, 1, 31, 32, 33, 100'000})
    EXPECT_EQ(sent(WireType::f32, values_of(size)), values_of(size));
}

TEST(WireFormat, HasTheStatedSize) {
  EXPECT_EQ(wire_bytes(WireType::f32, 33), 132U);
  EXPECT_EQ(wire_bytes(WireType::bf16, 33), 66U);
  EXPECT_EQ(wire_bytes(WireType::int8, 32), 34U);
  EXPECT_EQ(wire_bytes(WireType::int8, 33), 37U);
  EXPECT_EQ(wire_bytes(WireType::int8, 0), 0U);
}

TEST(WireFormat, Bf16RoundsToTheNearestAndTiesToEven) {
  const float step = std::ldexp(1.0F, -7);  // step between bf16 numbers from 1 on
  EXPECT_EQ(sent(WireType::bf16,
                 {1.0F + step / 2, 1.0F + 1.5F * step, 1.0F + 0.51F * step, -1.0F - 0.49F * step, 0.0F}),
            (std::vector<float>{1.0F, 1.0F + 2 * step, 1.0F + step, -1.0F, 0.0F}));
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(sent(WireType::bf16, {infinity, -infinity}), (std::vector<float>{infinity, -infinity}));
  EXPECT_TRUE(std::isnan(sent(WireType::bf16, {std::numeric_limits<float>::quiet_NaN()}).front()));
}

TEST(WireFormat, Int8ErrsByHalfAStepOfItsGroupAtMost) {
  for (const std::size_t size : {1, 31, 32, 33, 1000, 100'001}) {
    std::vector<float> values = values_of(size);
    for (std::size_t i = 0; i < size; ++i)
      values[i] *= std::ldexp(1.0F, static_cast<int>(i / kWireGroup % 40) - 20);
    const std::vector<float> received = sent(WireType::int8, values);
    for (std::size_t begin = 0; begin < size; begin += kWireGroup) {
      const std::size_t end = std::min(size, begin + kWireGroup);
      float largest = 0.0F;
      for (std::size_t i = begin; i < end; ++i) largest = std::max(largest, std::abs(values[i]));
      // The scale is rounded up to 8 bits.
      const float max = largest / 127.0F * (1.0F + std::ldexp(1.0F, -7)) / 2 * 1.0001F;
      for (std::size_t i = begin; i < end; ++i)
        EXPECT_LE(std::abs(received[i] - values[i]), max) << size << ", " << i;
    }
  }
}

// A rounded sum can be sent on without another rounding.
TEST(WireFormat, Int8KeepsZerosAndRoundedValues) {
  std::vector<float> values(64, 0.0F);
  for (std::size_t i = 0; i < 32; ++i) values[i] = 0.5F * static_cast<float>(static_cast<int>(i) * 8 - 127);
  values[0] = -63.5F;  // 127 steps of one half
  EXPECT_EQ(sent(WireType::int8, values), values);
}

TEST(WireFormat, Int8MakesAGroupWithAnInfinityNanAndNoOtherGroup) {
  for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    std::vector<float> values(96, 1.0F);
    values[40] = bad;
    const std::vector<float> received = sent(WireType::int8, values);
    for (std::size_t i = 0; i < values.size(); ++i)
      EXPECT_EQ(std::isnan(received[i]), i / kWireGroup == 1) << i;
  }
}

TEST(WireFormat, Int8AcceptsTheLargestAndTheSmallestValues) {
  std::vector<float> large(32, std::numeric_limits<float>::max());
  large[1] = -large[0];
  const std::vector<float> received = sent(WireType::int8, large);
  EXPECT_NEAR(received[0] / large[0], 1.0F, 0.01F);
  EXPECT_NEAR(received[1] / large[0], -1.0F, 0.01F);
  EXPECT_EQ(sent(WireType::int8, std::vector<float>(32, std::numeric_limits<float>::denorm_min())),
            std::vector<float>(32, 0.0F));
}

}  // namespace
}  // namespace tp
