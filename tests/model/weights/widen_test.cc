#include "model/weights/source/widen.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace tp {
namespace {

constexpr int sixteen_bits = 1 << 16;

// Returns the value of a 16-bit float with `mantissa_bits`, by the definition of such floats.
double value_of(unsigned bits, int mantissa_bits, int largest_exponent, int bias) {
  const unsigned mantissa = bits & ((1u << mantissa_bits) - 1);
  const int exponent = static_cast<int>(bits & 0x7fff) >> mantissa_bits;
  const double sign = bits & 0x8000 ? -1 : 1;
  const double fraction = std::ldexp(mantissa, -mantissa_bits);
  if (exponent == largest_exponent) return mantissa == 0 ? sign * INFINITY : NAN;
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias);
  return sign * std::ldexp(1 + fraction, exponent - bias);
}

// Whether both numbers are equal, including the sign of zero, or both are NaN.
bool same(float a, double b) {
  return std::isnan(a) ? std::isnan(b) : a == b && std::signbit(a) == std::signbit(b);
}

std::vector<float> widen_all(DType type) {
  std::vector<std::uint16_t> bits(sixteen_bits);
  for (int i = 0; i < sixteen_bits; ++i) bits[i] = static_cast<std::uint16_t>(i);
  std::vector<float> values(sixteen_bits);
  widen(type, reinterpret_cast<const std::byte*>(bits.data()), bits.size(), values.data());
  return values;
}

TEST(Widen, EveryHalfFloatIsExact) {
  const std::vector<float> values = widen_all(DType::f16);
  for (int i = 0; i < sixteen_bits; ++i) {
    ASSERT_TRUE(same(values[i], value_of(i, 10, 31, 15))) << "bits " << i << " became " << values[i];
  }
  EXPECT_EQ(values[0x0001], 0x1p-24f);
  EXPECT_EQ(values[0x7bff], 65504.0f);
  EXPECT_EQ(values[0xfc00], -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(values[0x7c01]));
}

TEST(Widen, EveryBrainFloatIsExact) {
  const std::vector<float> values = widen_all(DType::bf16);
  for (int i = 0; i < sixteen_bits; ++i) {
    ASSERT_TRUE(same(values[i], value_of(i, 7, 255, 127))) << "bits " << i << " became " << values[i];
  }
}

TEST(Widen, AnyCountFromAnyAddressIsTheSame) {
  std::mt19937 random(1);
  std::vector<std::byte> bytes(4 * 100 + 8);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  for (const DType type : {DType::f32, DType::f16, DType::bf16}) {
    for (std::size_t offset = 0; offset < 5; ++offset) {
      for (std::size_t count = 0; count <= 100; ++count) {
        std::vector<float> whole(count), single(count);
        widen(type, bytes.data() + offset, count, whole.data());
        for (std::size_t i = 0; i < count; ++i)
          widen(type, bytes.data() + offset + i * size_of(type), 1, &single[i]);
        ASSERT_TRUE(count == 0 || std::memcmp(whole.data(), single.data(), count * sizeof(float)) == 0);
      }
    }
  }
}

}  // namespace
}  // namespace tp
