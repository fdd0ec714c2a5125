#include "parallel/exchange/wire_format.h"

#include "parallel/shard/vector_clones.h"
#include "tp/internal/threads.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>

namespace tp {
namespace {

constexpr std::size_t kInt8GroupBytes = sizeof(std::uint16_t) + kWireGroup;
constexpr float kMaxInt8 = 127.0F;

[[gnu::always_inline]] inline std::uint16_t bf16_nearest(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  // A NaN whose upper mantissa bits are zero must not become an infinity.
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return static_cast<std::uint16_t>((bits >> 16) | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
}

// Rounds up. The value must not be negative.
[[gnu::always_inline]] inline std::uint16_t bf16_not_below(float value) {
  return static_cast<std::uint16_t>((std::bit_cast<std::uint32_t>(value) + 0xFFFFU) >> 16);
}

[[gnu::always_inline]] inline float float_of_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

TP_FOR_WIDE_VECTORS void encode_bf16(const float* values, std::size_t size, std::byte* bytes) {
  for (std::size_t i = 0; i < size; ++i) {
    const std::uint16_t bits = bf16_nearest(values[i]);
    std::memcpy(bytes + i * sizeof(bits), &bits, sizeof(bits));
  }
}

TP_FOR_WIDE_VECTORS void decode_bf16(const std::byte* bytes, std::size_t size, float* values) {
  for (std::size_t i = 0; i < size; ++i) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, bytes + i * sizeof(bits), sizeof(bits));
    values[i] = float_of_bf16(bits);
  }
}

// Magnitudes have the same order as their bit patterns. Infinity and NaN are above all other values.
[[gnu::always_inline]] inline float largest_magnitude_of(const float* values, std::size_t size) {
  std::uint32_t largest = 0;
  for (std::size_t i = 0; i < size; ++i)
    largest = std::max(largest, std::bit_cast<std::uint32_t>(values[i]) & 0x7FFFFFFFU);
  return std::bit_cast<float>(largest);
}

[[gnu::always_inline]] inline void encode_group(const float* values, std::size_t size, std::byte* bytes) {
  const float largest = largest_magnitude_of(values, size);
  const bool is_finite = largest <= std::numeric_limits<float>::max();
  const std::uint16_t scale_bits =
      is_finite ? bf16_not_below(largest / kMaxInt8) : bf16_nearest(std::numeric_limits<float>::quiet_NaN());
  std::memcpy(bytes, &scale_bits, sizeof(scale_bits));
  auto* const out = reinterpret_cast<std::int8_t*>(bytes + sizeof(scale_bits));
  const float scale = float_of_bf16(scale_bits);
  if (!(scale >= std::numeric_limits<float>::min())) {
    std::memset(out, 0, size);
    return;
  }
  for (std::size_t i = 0; i < size; ++i) {
    // Adding 1.5 * 2^23 rounds to the nearest integer, ties to even.
    constexpr float kRound = 12582912.0F;
    const float quotient = values[i] / scale;
    out[i] = static_cast<std::int8_t>(static_cast<std::int32_t>((quotient + kRound) - kRound));
  }
}

TP_FOR_WIDE_VECTORS void encode_int8(const float* values, std::size_t size, std::byte* bytes) {
  for (std::size_t i = 0; i < size; i += kWireGroup, bytes += kInt8GroupBytes) {
    if (size - i >= kWireGroup)
      encode_group(values + i, kWireGroup, bytes);
    else
      encode_group(values + i, size - i, bytes);
  }
}

TP_FOR_WIDE_VECTORS void decode_int8(const std::byte* bytes, std::size_t size, float* values) {
  for (std::size_t i = 0; i < size; i += kWireGroup, bytes += kInt8GroupBytes) {
    std::uint16_t scale_bits = 0;
    std::memcpy(&scale_bits, bytes, sizeof(scale_bits));
    const float scale = float_of_bf16(scale_bits);
    const auto* const integers = reinterpret_cast<const std::int8_t*>(bytes + sizeof(scale_bits));
    const std::size_t end = std::min(kWireGroup, size - i);
    for (std::size_t k = 0; k < end; ++k) values[i + k] = scale * static_cast<float>(integers[k]);
  }
}

// Calls body(begin, end) on several threads, each with a part that consists of whole groups.
template <class Body>
void for_groups(std::size_t size, const Body& body) {
  const std::size_t groups = (size + kWireGroup - 1) / kWireGroup;
  for_thread_parts(groups, 4 * size, [&](std::size_t begin, std::size_t end) {
    body(begin * kWireGroup, std::min(size, end * kWireGroup));
  });
}

}  // namespace

std::size_t wire_bytes(WireType type, std::size_t size) {
  if (type == WireType::f32) return size * sizeof(float);
  if (type == WireType::bf16) return size * sizeof(std::uint16_t);
  return size + (size + kWireGroup - 1) / kWireGroup * sizeof(std::uint16_t);
}

void wire_encode(WireType type, std::span<const float> values, std::byte* bytes) {
  for_groups(values.size(), [&](std::size_t begin, std::size_t end) {
    std::byte* const to = bytes + wire_bytes(type, begin);
    const float* const from = values.data() + begin;
    if (type == WireType::f32) std::memcpy(to, from, (end - begin) * sizeof(float));
    if (type == WireType::bf16) encode_bf16(from, end - begin, to);
    if (type == WireType::int8) encode_int8(from, end - begin, to);
  });
}

void wire_decode(WireType type, const std::byte* bytes, std::span<float> values) {
  for_groups(values.size(), [&](std::size_t begin, std::size_t end) {
    const std::byte* const from = bytes + wire_bytes(type, begin);
    float* const to = values.data() + begin;
    if (type == WireType::f32) std::memcpy(to, from, (end - begin) * sizeof(float));
    if (type == WireType::bf16) decode_bf16(from, end - begin, to);
    if (type == WireType::int8) decode_int8(from, end - begin, to);
  });
}

}  // namespace tp
