#include "model/layers/attention/lsh_rotations.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>
#include <numeric>
#include <random>

namespace tp {
namespace {

constexpr std::size_t kAtOnce = 16;

// Applies the Box-Muller transform to 16 numbers from [0, 1). The first half determines radii, the second
// half angles.
void make_normal(float* numbers) {
  constexpr std::size_t kHalf = kAtOnce / 2;
  for (std::size_t i = 0; i < kHalf; ++i) {
    const double radius = std::sqrt(-2.0 * std::log(1.0 - static_cast<double>(numbers[i])));
    const double angle = 2.0 * std::numbers::pi * static_cast<double>(numbers[i + kHalf]);
    numbers[i] = static_cast<float>(radius * std::cos(angle));
    numbers[i + kHalf] = static_cast<float>(radius * std::sin(angle));
  }
}

}  // namespace

std::vector<float> torch_randn(std::uint64_t seed, std::size_t count) {
  std::mt19937 random(static_cast<std::uint32_t>(seed));
  const auto uniform = [&] { return static_cast<float>(random() & 0xFFFFFFU) * 0x1p-24F; };
  std::vector<float> numbers(std::max(count, kAtOnce));
  std::ranges::generate(numbers, uniform);
  for (std::size_t i = 0; i + kAtOnce <= numbers.size(); i += kAtOnce) make_normal(numbers.data() + i);
  if (numbers.size() % kAtOnce != 0) {  // like PyTorch, redraws the last 16 numbers
    float* const last = numbers.data() + numbers.size() - kAtOnce;
    std::generate_n(last, kAtOnce, uniform);
    make_normal(last);
  }
  numbers.resize(count);
  return numbers;
}

std::vector<std::size_t> bucket_factors(const LshAttentionSpec& spec, std::size_t padded) {
  if (!spec.num_buckets.empty()) return spec.num_buckets;
  const std::size_t chunks = std::max<std::size_t>(padded / spec.chunk_length, 1);
  const auto exponent = static_cast<std::size_t>(std::bit_width(2 * chunks) - 1);
  const std::size_t buckets = std::size_t{1} << exponent;
  if (buckets <= spec.max_buckets) return {buckets};
  return {std::size_t{1} << exponent / 2, std::size_t{1} << (exponent - exponent / 2)};
}

std::vector<float> lsh_rotations(const LshAttentionSpec& spec, std::span<const std::size_t> factors,
                                 Range heads) {
  const std::size_t size = std::accumulate(factors.begin(), factors.end(), std::size_t{0}) / 2;
  const std::size_t of_head = spec.head_dim * spec.num_hashes * size;
  const std::vector<float> all = torch_randn(spec.hash_seed, spec.num_attention_heads * of_head);
  std::vector<float> own(heads.size() * of_head);
  auto next = own.begin();
  for (std::size_t head = heads.begin; head < heads.end; ++head) {
    for (std::size_t column = 0; column < spec.num_hashes * size; ++column) {
      for (std::size_t d = 0; d < spec.head_dim; ++d)
        *next++ = all[head * of_head + d * spec.num_hashes * size + column];
    }
  }
  return own;
}

}  // namespace tp
