// Layouts of panels with the quantized types of checkpoints; see simd.h for the rules.
#pragma once

#include "model/kernels/simd/pack/grid_format.h"
#include "model/kernels/simd/pack/grids.h"

#include <cstddef>
#include <cstdint>

namespace tp::kernels {

// How a group's scale is stored.
enum class ScaleKind : std::uint8_t {
  f16,             // an f16 per group, and an f16 offset if the type has offsets
  bf16,            // a bf16 per group
  e8m0,            // half of a power of two, whose exponent is a byte
  bytes,           // a signed byte, multiplied by an f16 of the super-block
  six_bits,        // 6 bits, multiplied by an f16 of the super-block; also offsets
  half_bytes,      // scale in the low half of a byte, offset in the high half; each is multiplied by an f16
  zero_point_f16,  // an f16, and the byte of a zero point: the offset is their product
  zero_point_bf16,
  e4m3,      // half of an FP8 number without a sign, multiplied by an f32 of the super-block
  super,     // only the f16 of the super-block
  in_codes,  // in the strings of a GridFormat, multiplied by an f16 of the super-block
};

// How stored bits become an element. none: the bits are the value. iq4, mxfp4, nvfp4, ternary: the value in a
// table. grid, trits: elements have no bits of their own; see GridFormat and kTritBytes.
enum class Codebook : std::uint8_t { none, iq4, mxfp4, nvfp4, ternary, grid, trits };

// An element's value is scale * (element - zero) + offset; with `subtracts`, the offset is subtracted.
//
// A block of 64 columns of a panel has 16 quads of four columns each. It consists of
//   a plane of the elements' low bits, and a plane of their high bits if there are more. A plane of b bits
//     is 2 b vectors of [16][4] bytes: a byte for each of 16 rows and four columns. Quad q is in vector
//     q % 2b, in the bits from q / 2b * b on;
//   the scales. f16 and bf16: for each group [16] scales, then [16] offsets, if any. e8m0, bytes and
//     half_bytes: [16] for each group. six_bits: [3][16] bytes, whose low six bits are numbers 0 to 2, and
//     whose high bits are number 3, lowest bits first. The numbers are the scales of four groups, or the
//     scales, then the offsets, of two groups.
// With Codebook::grid or trits, it consists only of the strings of 16 rows: see StringLayout.
// Up to four blocks of GGUF's types form a super-block: [16] f16 by which all of its scales are multiplied,
// [16] f16 for its offsets, if any, then the blocks. Super-blocks are those of the file. If a panel begins or
// ends inside a super-block, its first or last super-block has fewer blocks.
//
// The types with zero points are those of AWQ, GPTQ and compressed-tensors. Their groups share a scale over
// up to 256 columns. A scale per 32 columns would take more memory than the file. Therefore scales belong to
// the super-block: [16] scales, [16] bytes of zero points, then the blocks. A super-block has `scale_group`
// columns; if these are 32, two groups' scales and zero points precede each block. `group` is the size of
// groups of activations. A scale times an element minus its zero point has at most 8 + 11 bits, so that both
// products and their difference are exact in float32.
struct QuantFormat {
  int low_bits;
  int high_bits;
  std::size_t group;  // elements that share a scale
  ScaleKind scales;
  int zero = 0;
  int scale_zero = 0;  // subtracted from scales of six bits
  bool has_offsets = false;
  bool subtracts = false;
  Codebook codebook = Codebook::none;
  std::size_t scale_group = 256;  // columns of a super-block of types with zero points
  const GridFormat* grid = nullptr;

  constexpr bool has_codes() const { return codebook == Codebook::grid || codebook == Codebook::trits; }
  // Bits of a row of a block of a type with codes.
  constexpr std::size_t code_bits() const {
    return codebook == Codebook::grid ? grid->bits(groups()) : 8 * kTritBytes;
  }
  constexpr StringLayout strings() const { return StringLayout(code_bits()); }
  // Bits of one of QuantizedRows::elements.
  constexpr int element_bits() const { return has_codes() ? 8 : low_bits + high_bits; }
  constexpr bool has_zero_points() const {
    return scales == ScaleKind::zero_point_f16 || scales == ScaleKind::zero_point_bf16;
  }
  constexpr std::size_t groups() const { return 64 / group; }  // groups of a block
  constexpr std::size_t low_bytes() const { return 128 * static_cast<std::size_t>(low_bits); }
  constexpr std::size_t plane_bytes() const {
    if (has_codes()) return 2 * code_bits();
    return low_bytes() + 128 * static_cast<std::size_t>(high_bits);
  }
  constexpr std::size_t scale_bytes() const {
    return has_zero_points() || has_only_super_scale() ? 0
           : has_own_scales()                          ? (has_offsets ? 128 : 64)
           : scales == ScaleKind::six_bits             ? 48
                                                       : 16 * groups();
  }
  constexpr std::size_t block_bytes() const { return plane_bytes() + scale_bytes(); }
  // Whether blocks have no scales, apart from those in codes.
  constexpr bool has_only_super_scale() const {
    return scales == ScaleKind::super || scales == ScaleKind::in_codes;
  }
  constexpr bool has_own_scales() const { return scales == ScaleKind::f16 || scales == ScaleKind::bf16; }
  constexpr bool has_super_blocks() const { return !has_own_scales() && scales != ScaleKind::e8m0; }
  // Blocks of a super-block, and the bytes before them.
  constexpr std::size_t super_blocks() const { return scale_group < 64 ? 1 : scale_group / 64; }
  constexpr std::size_t super_bytes() const {
    if (has_zero_points()) return scales_of_super() * kZeroPointBytes;
    return has_super_blocks() ? (has_offsets || scales == ScaleKind::e4m3 ? 64 : 32) : 0;
  }
  // Types with zero points: groups of a super-block, and bytes per group for 16 rows.
  constexpr std::size_t scales_of_super() const { return scale_group < 64 ? 2 : 1; }
  static constexpr std::size_t kZeroPointBytes = 48;

  // Places of the elements of block `block` in a panel that begins with block `first` of a super-block, and
  // of the f16 of this block's super-block.
  constexpr std::size_t place(std::size_t first, std::size_t block) const {
    const std::size_t supers = (first + block) / super_blocks() - first / super_blocks() + 1;
    return block * block_bytes() + supers * super_bytes();
  }
  constexpr std::size_t super_place(std::size_t first, std::size_t block) const {
    return place(first, block) - blocks_after_super(first, block) * block_bytes() - super_bytes();
  }
  // Bytes from the elements of a block to those of the next block.
  constexpr std::size_t step(std::size_t first, std::size_t block) const {
    return block_bytes() + ((first + block + 1) % super_blocks() == 0 ? super_bytes() : 0);
  }
  // Bytes of a panel of `blocks` blocks.
  constexpr std::size_t panel_bytes(std::size_t first, std::size_t blocks) const {
    return blocks == 0 ? 0 : place(first, blocks - 1) + block_bytes();
  }

  // Blocks between a block and the beginning of its super-block in the panel.
  constexpr std::size_t blocks_after_super(std::size_t first, std::size_t block) const {
    const std::size_t in_super = (first + block) % super_blocks();
    return block < in_super ? block : in_super;
  }
};

inline constexpr QuantFormat kQ4K{4, 0, 32, ScaleKind::six_bits, 0, 0, true, true};
inline constexpr QuantFormat kQ5K{4, 1, 32, ScaleKind::six_bits, 0, 0, true, true};
inline constexpr QuantFormat kQ6K{4, 2, 16, ScaleKind::bytes, 32};
inline constexpr QuantFormat kQ3K{2, 1, 16, ScaleKind::six_bits, 4, 32};
inline constexpr QuantFormat kQ2K{2, 0, 16, ScaleKind::half_bytes, 0, 0, true, true};
inline constexpr QuantFormat kQ41{4, 0, 32, ScaleKind::f16, 0, 0, true, false};
inline constexpr QuantFormat kQ50{4, 1, 32, ScaleKind::f16, 16};
inline constexpr QuantFormat kQ51{4, 1, 32, ScaleKind::f16, 0, 0, true, false};
inline constexpr QuantFormat kIq4Nl{4, 0, 32, ScaleKind::f16, 128, 0, false, false, Codebook::iq4};
inline constexpr QuantFormat kIq4Xs{4, 0, 32, ScaleKind::bytes, 128, 0, false, false, Codebook::iq4};
inline constexpr QuantFormat kMxfp4{4, 0, 32, ScaleKind::e8m0, 12, 0, false, false, Codebook::mxfp4};

template <std::size_t kEntries, std::size_t kWidth>
constexpr GridFormat grid_format(const Grid<kEntries, kWidth>& grid, Signs signs, std::size_t scale_bits,
                                 float unit) {
  std::size_t high_bits = 0;
  while (std::size_t{256} << high_bits < kEntries) ++high_bits;
  return {grid.words, grid.bytes[0], grid.levels, kWidth, high_bits, signs, scale_bits, unit};
}
inline constexpr GridFormat kIq2XxsGrid = grid_format(kIq2XxsRows, Signs::seven_bits, 4, 1.0F / 8);
inline constexpr GridFormat kIq2XsGrid = grid_format(kIq2XsRows, Signs::seven_bits, 4, 1.0F / 8);
inline constexpr GridFormat kIq2SGrid = grid_format(kIq2SRows, Signs::eight_bits, 4, 1.0F / 8);
inline constexpr GridFormat kIq3XxsGrid = grid_format(kIq3XxsRows, Signs::seven_bits, 4, 1.0F / 4);
inline constexpr GridFormat kIq3SGrid = grid_format(kIq3SRows, Signs::eight_bits, 4, 1.0F);
inline constexpr GridFormat kIq1SGrid = grid_format(kIq1Rows, Signs::shift_of_group, 4, 1.0F / 8);
inline constexpr GridFormat kIq1MGrid = grid_format(kIq1Rows, Signs::shift_of_eight, 3, 1.0F / 8);

constexpr QuantFormat with_grid(const GridFormat& grid, std::size_t group) {
  return {.low_bits = 0,
          .high_bits = 0,
          .group = group,
          .scales = ScaleKind::in_codes,
          .zero = 128,
          .codebook = Codebook::grid,
          .grid = &grid};
}
inline constexpr QuantFormat kIq2Xxs = with_grid(kIq2XxsGrid, 32);
inline constexpr QuantFormat kIq2Xs = with_grid(kIq2XsGrid, 16);
inline constexpr QuantFormat kIq2S = with_grid(kIq2SGrid, 16);
inline constexpr QuantFormat kIq3Xxs = with_grid(kIq3XxsGrid, 32);
inline constexpr QuantFormat kIq3S = with_grid(kIq3SGrid, 32);
inline constexpr QuantFormat kIq1S = with_grid(kIq1SGrid, 32);
inline constexpr QuantFormat kIq1M = with_grid(kIq1MGrid, 16);
inline constexpr QuantFormat kTq10{0, 0, 32, ScaleKind::super, 128, 0, false, false, Codebook::trits};
inline constexpr QuantFormat kTq20{2, 0, 32, ScaleKind::super, 128, 0, false, false, Codebook::ternary};
inline constexpr QuantFormat kNvfp4{4, 0, 16, ScaleKind::e4m3, 128, 0, false, false, Codebook::nvfp4};

constexpr QuantFormat with_zero_points(std::size_t scale_group, ScaleKind scales) {
  return {4, 0, 32, scales, 0, 0, true, true, Codebook::none, scale_group};
}
inline constexpr QuantFormat kInt4G32 = with_zero_points(32, ScaleKind::zero_point_f16);
inline constexpr QuantFormat kInt4G64 = with_zero_points(64, ScaleKind::zero_point_f16);
inline constexpr QuantFormat kInt4G128 = with_zero_points(128, ScaleKind::zero_point_f16);
inline constexpr QuantFormat kInt4G256 = with_zero_points(256, ScaleKind::zero_point_f16);
inline constexpr QuantFormat kInt4G32Bf16 = with_zero_points(32, ScaleKind::zero_point_bf16);
inline constexpr QuantFormat kInt4G64Bf16 = with_zero_points(64, ScaleKind::zero_point_bf16);
inline constexpr QuantFormat kInt4G128Bf16 = with_zero_points(128, ScaleKind::zero_point_bf16);
inline constexpr QuantFormat kInt4G256Bf16 = with_zero_points(256, ScaleKind::zero_point_bf16);
// For files without zero points; the zero point is 8.
inline constexpr QuantFormat kInt4SymG32{4, 0, 32, ScaleKind::f16, 8};
inline constexpr QuantFormat kInt4SymG32Bf16{4, 0, 32, ScaleKind::bf16, 8};

// In the order of WeightType.
inline constexpr const QuantFormat* kQuantFormats[] = {
    &kQ4K,          &kQ5K,        &kQ6K,           &kQ3K,      &kQ2K,         &kQ41,         &kQ50,
    &kQ51,          &kIq4Nl,      &kIq4Xs,         &kMxfp4,    &kIq2Xxs,      &kIq2Xs,       &kIq2S,
    &kIq3Xxs,       &kIq3S,       &kIq1S,          &kIq1M,     &kTq10,        &kTq20,        &kNvfp4,
    &kInt4G32,      &kInt4G64,    &kInt4G128,      &kInt4G256, &kInt4G32Bf16, &kInt4G64Bf16, &kInt4G128Bf16,
    &kInt4G256Bf16, &kInt4SymG32, &kInt4SymG32Bf16};

// Values of 4 bits, plus the format's `zero`. Source: ggml, kvalues_iq4nl and kvalues_mxfp4.
inline constexpr std::uint8_t kIq4Values[16] = {1,   24,  45,  63,  79,  93,  106, 118,
                                                129, 141, 153, 166, 181, 197, 217, 241};
inline constexpr std::uint8_t kMxfp4Values[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};
inline constexpr std::uint8_t kNvfp4Values[16] = {128, 129, 130, 131, 132, 134, 136, 140,
                                                  128, 127, 126, 125, 124, 122, 120, 116};
// Only the first four count; a table has 16 bytes.
inline constexpr std::uint8_t kTernaryValues[16] = {127, 128, 129, 130};
constexpr const std::uint8_t* values_of(Codebook codebook) {
  return codebook == Codebook::iq4       ? kIq4Values
         : codebook == Codebook::mxfp4   ? kMxfp4Values
         : codebook == Codebook::nvfp4   ? kNvfp4Values
         : codebook == Codebook::ternary ? kTernaryValues
                                         : nullptr;
}

// An FP8 number (E4M3) without a sign, shifted by 20 bits, is a float32 whose exponent has another bias. Half
// of the FP8 number is the product of this float32 and this factor.
inline constexpr float kHalfOfE4m3 = 0x1p119F;

// The bits of half an E8M0 scale as float32: 2^(exponent - 128). The first two are subnormal.
constexpr std::uint32_t half_of_e8m0(std::uint32_t exponent) {
  return exponent < 2 ? 0x00200000U << exponent : (exponent - 1) << 23;
}

}  // namespace tp::kernels
