#include "model/weights/source/widen.h"

#include <array>
#include <cmath>
#include <cstring>
#include <limits>

namespace tp {
namespace {

static_assert(std::endian::native == std::endian::little,
              "checkpoints are little-endian, and read as they are");

template <class Convert>
void widen_16_bits(const std::byte* __restrict from, std::size_t count, float* __restrict to,
                   Convert convert) {
  for (std::size_t i = 0; i < count; ++i) {
    std::uint16_t bits;
    std::memcpy(&bits, from + i * sizeof bits, sizeof bits);
    to[i] = convert(bits);
  }
}

std::array<float, 256> values_of_f8_e4m3() {
  std::array<float, 256> values;
  for (int bits = 0; bits < 256; ++bits) {
    const int exponent = bits >> 3 & 15;
    const int mantissa = bits & 7;
    float magnitude = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -9)
                                    : std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
    if (exponent == 15 && mantissa == 7) magnitude = std::numeric_limits<float>::quiet_NaN();
    values[static_cast<std::size_t>(bits)] = bits < 128 ? magnitude : -magnitude;
  }
  return values;
}

}  // namespace

void widen_f8_e4m3(const std::byte* from, std::size_t count, float scale, float* to) {
  static const std::array<float, 256> table = values_of_f8_e4m3();
  for (std::size_t i = 0; i < count; ++i) to[i] = table[std::to_integer<std::size_t>(from[i])] * scale;
}

void widen(DType type, const std::byte* from, std::size_t count, float* to) {
  if (count == 0) return;
  switch (type) {
    case DType::f32:
      std::memcpy(to, from, count * sizeof(float));
      return;
    case DType::f16:
      return widen_16_bits(from, count, to, [](std::uint16_t bits) { return float_from_f16(bits); });
    case DType::bf16:
      return widen_16_bits(from, count, to, [](std::uint16_t bits) { return float_from_bf16(bits); });
  }
}

}  // namespace tp
