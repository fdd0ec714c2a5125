#include "model/kernels/rounding.h"

#include "tp/internal/threads.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <span>

namespace tp::kernels {
namespace {

constexpr int kBias = 127;
constexpr int kMantissaBits = 23;

// 2^exponent, for normal numbers.
float power_of_two(int exponent) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(exponent + kBias) << kMantissaBits);
}

// floor(log2(|x|)), for normal numbers; less than any used exponent for others.
int exponent_of(float x) {
  return static_cast<int>(std::bit_cast<std::uint32_t>(x) >> kMantissaBits & 0xffU) - kBias;
}

// `min_exponent`: of the smallest number with a full mantissa. Smaller numbers have its distance.
float round_to(float x, int mantissa_bits, int min_exponent, float max) {
  const int exponent = std::max(exponent_of(x), min_exponent) - mantissa_bits;
  const float rounded = std::nearbyint(x * power_of_two(-exponent)) * power_of_two(exponent);
  return std::clamp(rounded, -max, max);
}

float highest_of(std::span<const float> block) {
  float highest = 0.0F;
  for (const float element : block) highest = std::max(highest, std::abs(element));
  return highest;
}

// Calls round(block) for all blocks of all rows.
template <class Round>
void for_blocks(std::size_t size, std::size_t block, TensorView<float> x, const Round& round) {
  if (size % block != 0 || x.empty()) return;
  for_thread_parts(x.rows(), 8 * x.size(), [&](std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row) {
      for (std::size_t i = 0; i < x.columns(); i += block) round(std::span(x.row(row) + i, block));
    }
  });
}

}  // namespace

float round_to_e4m3(float x) { return round_to(x, 3, -6, 448.0F); }
float round_to_e2m1(float x) { return round_to(x, 1, 0, 6.0F); }

float power_of_two_above(float x) {
  const int exponent = exponent_of(x);
  return power_of_two(power_of_two(exponent) < x ? exponent + 1 : exponent);
}

void round_blocks_to_fp8(std::size_t size, TensorView<float> x) {
  constexpr float kLeast = 1e-4F;
  for_blocks(size, kRoundedBlock, x, [&](std::span<float> block) {
    const float scale = power_of_two_above(std::max(highest_of(block), kLeast) / 448.0F);
    for (float& element : block) element = round_to_e4m3(element / scale) * scale;
  });
}

void round_blocks_to_fp4(std::size_t size, TensorView<float> x) {
  constexpr float kLeast = 6.0F * 0x1p-126F;
  for_blocks(size, kRoundedBlock, x, [&](std::span<float> block) {
    const float scale = power_of_two_above(std::max(highest_of(block), kLeast) / 6.0F);
    for (float& element : block) element = round_to_e2m1(element / scale) * scale;
  });
}

void round_blocks_to_scaled_fp4(std::size_t size, TensorView<float> x) {
  constexpr float kLeast = 6.0F * 0x1p-9F;
  for_blocks(size, kScaledFp4Block, x, [&](std::span<float> block) {
    const float scale = round_to_e4m3(std::max(highest_of(block), kLeast) / 6.0F);
    for (float& element : block) element = round_to_e2m1(element / scale) * scale;
  });
}

}  // namespace tp::kernels
