// Compiled once per instruction set; see simd.h for the restrictions.
//
// A panel consists of strips of 64 columns and 16 rows, which are made in the first-level cache. Strips are
// rounded to the panel's type row by row, as stored, and then transposed, because that moves the fewest
// bytes.

#include "model/kernels/simd/pack/pack.h"
#include "model/kernels/simd/pack/pack_blocks.h"
#include "model/kernels/simd/pack/pack_quants.h"
#include "model/kernels/simd/pack/pack_strips.h"
#include "model/kernels/simd/vector/vector.h"

#ifndef TP_ISA_NAMESPACE
#error "compile with -DTP_ISA_NAMESPACE=portable, avx2, ..."
#endif

namespace tp::kernels::TP_ISA_NAMESPACE {
namespace {

using Halves = std::uint16_t __attribute__((vector_size(16)));

constexpr std::size_t kTileDepth = 32;  // columns of bf16 are padded to a multiple of this

// NaN remains NaN.
inline std::uint32_t round_to_bf16(float value) {
  const auto bits = load_as<std::uint32_t>(&value);
  const std::uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
  return (bits & 0x7fffffffU) > 0x7f800000U ? (bits >> 16) | 0x40U : rounded;
}

// [16][64] elements of 16 bits, copied from a bf16 source, or rounded.
void make_bf16(const Strip& strip, std::uint16_t (*out)[kStrip]) {
  if (strip.source.type == DType::bf16) return copy(strip, out);
  float floats[kPanel][kStrip];
  widen(strip, floats);
  for (std::size_t r = 0; r < kPanel; ++r) {
#pragma omp simd
    for (std::size_t i = 0; i < kStrip; ++i)
      out[r][i] = static_cast<std::uint16_t>(round_to_bf16(floats[r][i]));
  }
}
void make_f16(const Strip& strip, std::uint16_t (*out)[kStrip]) {
  if (strip.source.type == DType::f16) return copy(strip, out);
  for_vectors(strip, [out](std::size_t r, std::size_t i, const Vector& v) {
    store_f16(v, reinterpret_cast<unsigned char*>(out[r] + i));
  });
}

// Calls write(strip, out) for each strip of a panel whose columns have `column_bytes`. An incomplete last
// strip is first written to separate memory.
template <class Write>
void for_strips(const PanelSource& source, std::size_t column_bytes, std::size_t padded_columns,
                unsigned char* panel, const Write& write) {
  for (std::size_t first = 0; first < source.columns; first += kStrip) {
    unsigned char* out = panel + first * column_bytes;
    if (first + kStrip <= padded_columns) {
      write(Strip{source, first}, out);
    } else {
      unsigned char rest[kStrip * kPanel * sizeof(float)];
      write(Strip{source, first}, rest);
      __builtin_memcpy(out, rest, (padded_columns - first) * column_bytes);
    }
  }
}

void f32(const PanelSource& source, unsigned char* panel) {
  for_strips(source, kPanel * 4, source.columns, panel, [](const Strip& strip, unsigned char* out) {
    float floats[kPanel][kStrip];
    widen(strip, floats);
    transpose(floats, sizeof(floats[0]), kStrip, out);
  });
}

void bf16(const PanelSource& source, unsigned char* panel) {
  const std::size_t padded = (source.columns + kTileDepth - 1) / kTileDepth * kTileDepth;
  for_strips(source, kPanel * 2, padded, panel, [](const Strip& strip, unsigned char* out) {
    std::uint16_t halves[kPanel][kStrip];
    make_bf16(strip, halves);
    transpose(halves, sizeof(halves[0]), kStrip / 2, out);
  });
}

// Transposes [16][64] elements of 16 bits to [64][16].
void transpose(const std::uint16_t (*rows)[kStrip], unsigned char* out) {
  constexpr std::size_t kSide = 8;
  for (std::size_t k = 0; k < kStrip; k += kSide) {
    for (std::size_t r = 0; r < kPanel; r += kSide) {
      Halves v[kSide];
      for (std::size_t i = 0; i < kSide; ++i) v[i] = load_as<Halves>(rows[r + i] + k);
      // Interleaving the first half of the vectors with the second half transposes them in log2(8) rounds.
      for (int round = 0; round < 3; ++round) {
        Halves next[kSide];
        for (std::size_t i = 0; i < kSide / 2; ++i) {
          next[2 * i] = __builtin_shufflevector(v[i], v[i + kSide / 2], 0, 8, 1, 9, 2, 10, 3, 11);
          next[2 * i + 1] = __builtin_shufflevector(v[i], v[i + kSide / 2], 4, 12, 5, 13, 6, 14, 7, 15);
        }
        for (std::size_t i = 0; i < kSide; ++i) v[i] = next[i];
      }
      for (std::size_t i = 0; i < kSide; ++i) {
        __builtin_memcpy(out + ((k + i) * kPanel + r) * sizeof(std::uint16_t), &v[i], sizeof(v[i]));
      }
    }
  }
}

void f16(const PanelSource& source, unsigned char* panel) {
  for_strips(source, kPanel * 2, source.columns, panel, [](const Strip& strip, unsigned char* out) {
    std::uint16_t halves[kPanel][kStrip];
    make_f16(strip, halves);
    transpose(halves, out);
  });
}

// Blocks of int8 are built in place.
static_assert(sizeof(Block) == kPanel * kStrip + 2 * kPanel * sizeof(std::uint16_t) && alignof(Block) == 4);
void int8(const PanelSource& source, unsigned char* panel) {
  for (std::size_t first = 0; first < source.columns; first += kStrip, panel += sizeof(Block)) {
    make_block<Int8Elements>(source, first, *reinterpret_cast<Block*>(panel));
  }
}
void int8_groups(const GroupSource& source, unsigned char* panel) {
  for (std::size_t first = 0; first < source.columns; first += kStrip, panel += sizeof(Block)) {
    make_block<8>(source, first, *reinterpret_cast<Block*>(panel));
  }
}

void int4(const PanelSource& source, unsigned char* panel) {
  Block block;
  for (std::size_t first = 0; first < source.columns; first += kStrip) {
    make_block<Int4Elements>(source, first, block);
    panel = write_int4(block, panel);
  }
}
void int4_groups(const GroupSource& source, unsigned char* panel) {
  Block block;
  for (std::size_t first = 0; first < source.columns; first += kStrip) {
    make_block<4>(source, first, block);
    panel = write_int4(block, panel);
  }
}

}  // namespace

extern const PackKernels kPackKernels;
const PackKernels kPackKernels = {f32, f16, bf16, int8, int4, int8_groups, int4_groups, quantized};

}  // namespace tp::kernels::TP_ISA_NAMESPACE
