// AMX's eight tile registers, each 16 rows of 64 bytes: 16 pairs of bf16, or 16 float32 sums. For
// *tile_kernels.cc only.
//
// Uses assembly, because compilers' intrinsics require literal register numbers, and those of g++ 12 let the
// compiler move stores to memory past a tile's load from it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tp::kernels {
namespace {

// Every thread must configure tiles before use, and release them afterwards: switching to a thread without
// tiles is cheaper.
inline void configure_tiles() {
  struct alignas(64) Config {
    std::uint8_t palette = 1;
    std::uint8_t start_row = 0;
    std::uint8_t reserved[14] = {};
    std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
  };
  static_assert(sizeof(Config) == 64);
  static constexpr Config kConfig;
  asm volatile("ldtilecfg %0" : : "m"(kConfig) : "memory");
}
inline void release_tiles() { asm volatile("tilerelease" : : : "memory"); }

// `stride`: bytes from one row to the next.
template <int kTile>
inline void load_tile(const void* from, std::size_t stride) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(stride), "i"(kTile) : "memory");
}
template <int kTile>
inline void store_tile(void* to, std::size_t stride) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(stride), "i"(kTile) : "memory");
}
template <int kTile>
inline void zero_tile() {
  asm volatile("tilezero %%tmm%c0" : : "i"(kTile));
}
// sum[m][n] += a[m][0..31] . b[0..31][n]. The pairs of rows of b are adjacent: [16][16][2].
template <int kSum, int kA, int kB>
inline void multiply_tiles() {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSum), "i"(kA), "i"(kB));
}
// multiply_tiles for signed bytes, of which four are adjacent.
template <int kSum, int kA, int kB>
inline void multiply_byte_tiles() {
  asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSum), "i"(kA), "i"(kB));
}

}  // namespace
}  // namespace tp::kernels
