// The tile registers of tiles_amx.h in plain C++, to test their use on every machine. For *tile_kernels.cc
// only.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tp::kernels {
namespace {

struct Tile {
  std::uint32_t words[16][16];
};
thread_local Tile tiles[8];
thread_local bool tiles_are_configured = false;

inline void configure_tiles() { tiles_are_configured = true; }
inline void release_tiles() { tiles_are_configured = false; }

// An instruction without a configuration is illegal.
template <int kTile>
inline Tile& tile() {
  if (!tiles_are_configured) __builtin_trap();
  return tiles[kTile];
}

template <int kTile>
inline void load_tile(const void* from, std::size_t stride) {
  const auto* bytes = static_cast<const unsigned char*>(from);
  for (std::size_t row = 0; row < 16; ++row)
    __builtin_memcpy(tile<kTile>().words[row], bytes + row * stride, 64);
}
template <int kTile>
inline void store_tile(void* to, std::size_t stride) {
  auto* bytes = static_cast<unsigned char*>(to);
  for (std::size_t row = 0; row < 16; ++row)
    __builtin_memcpy(bytes + row * stride, tile<kTile>().words[row], 64);
}
template <int kTile>
inline void zero_tile() {
  __builtin_memset(&tile<kTile>(), 0, sizeof(Tile));
}

inline float float_of(std::uint32_t bits) {
  float value;
  __builtin_memcpy(&value, &bits, sizeof(value));
  return value;
}
// Subnormal operands and results count as zero.
inline float flushed(float value) { return __builtin_fabsf(value) < 0x1p-126F ? 0.0F : value; }
inline float low_half(std::uint32_t pair) { return flushed(float_of(pair << 16)); }
inline float high_half(std::uint32_t pair) { return flushed(float_of(pair & 0xffff0000U)); }

// Sums the products of the first and of the second elements of pairs separately, then adds both sums to the
// result. Source: Intel 64 and IA-32 Architectures Software Developer's Manual, TDPBF16PS.
template <int kSum, int kA, int kB>
inline void multiply_tiles() {
  const Tile& a = tile<kA>();
  const Tile& b = tile<kB>();
  Tile& sum = tile<kSum>();
  for (std::size_t m = 0; m < 16; ++m) {
    float first[16] = {};
    float second[16] = {};
    for (std::size_t k = 0; k < 16; ++k) {
      for (std::size_t n = 0; n < 16; ++n) {
        first[n] = flushed(first[n] + low_half(a.words[m][k]) * low_half(b.words[k][n]));
        second[n] = flushed(second[n] + high_half(a.words[m][k]) * high_half(b.words[k][n]));
      }
    }
    for (std::size_t n = 0; n < 16; ++n) {
      const float total = flushed(float_of(sum.words[m][n]) + flushed(first[n] + second[n]));
      __builtin_memcpy(&sum.words[m][n], &total, sizeof(total));
    }
  }
}

}  // namespace
}  // namespace tp::kernels
