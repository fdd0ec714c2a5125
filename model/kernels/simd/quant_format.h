// How panels hold the quantized types of GGUF files; see simd.h for the rules.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tp::kernels {

// What a group's scale is.
enum class ScaleKind : std::uint8_t {
  f16,         // an f16 of its own, and an f16 offset if the type has offsets
  e8m0,        // half of a power of two, whose exponent is a byte
  bytes,       // a signed byte, times an f16 of the super-block
  six_bits,    // 6 bits, times an f16 of the super-block; so are offsets
  half_bytes,  // the lower half of a byte, times an f16; the upper half is the offset, times another one
};

// What the stored 4 bits of an element stand for, if not for themselves.
enum class Codebook : std::uint8_t { none, iq4, mxfp4 };

// An element's value is scale * (element - zero) + offset, and for `subtracts` - offset.
//
// A block of 64 columns of a panel has 16 quads of four columns each, and consists of
//   a plane of the elements' low bits, and one of their high bits if there are more. The plane of b bits is
//     2 b vectors of [16][4] bytes, a byte for each of 16 rows and four columns. Quad q is in the vector
//     q % 2b, in the bits from q / 2b * b on;
//   the scales: f16: for each group [16] scales, then [16] offsets if there are such; e8m0, bytes and
//     half_bytes: [16] for each group; six_bits: [3][16] bytes, the lower six bits of which are numbers 0 to
//     2 and whose upper ones are number 3, its lowest first. The numbers are the scales of four groups, or
//     the scales, then the offsets, of two.
// Up to four blocks make a super-block: [16] f16, with which all of its scales are to be multiplied, then
// [16] of the offsets if there are such, then the blocks. Super-blocks are the file's: where a panel begins
// within one, the first has fewer blocks; so has the last one where it ends within one.
struct QuantFormat {
  int low_bits;
  int high_bits;
  std::size_t group;  // elements that share a scale
  ScaleKind scales;
  int zero = 0;
  int scale_zero = 0;  // what is to be subtracted from scales of six bits
  bool has_offsets = false;
  bool subtracts = false;
  Codebook codebook = Codebook::none;

  constexpr std::size_t groups() const { return 64 / group; }  // of a block
  constexpr std::size_t low_bytes() const { return 128 * static_cast<std::size_t>(low_bits); }
  constexpr std::size_t plane_bytes() const {
    return low_bytes() + 128 * static_cast<std::size_t>(high_bits);
  }
  constexpr std::size_t scale_bytes() const {
    return scales == ScaleKind::f16        ? (has_offsets ? 128 : 64)
           : scales == ScaleKind::six_bits ? 48
                                           : 16 * groups();
  }
  constexpr std::size_t block_bytes() const { return plane_bytes() + scale_bytes(); }
  constexpr bool has_super_blocks() const { return scales != ScaleKind::f16 && scales != ScaleKind::e8m0; }
  // What precedes the blocks of a super-block.
  constexpr std::size_t super_bytes() const { return has_super_blocks() ? (has_offsets ? 64 : 32) : 0; }

  // Where the elements of block `block` of a panel are, which begins with block `first` of a super-block, and
  // where the f16 of its super-block.
  constexpr std::size_t place(std::size_t first, std::size_t block) const {
    return block * block_bytes() + ((first + block) / 4 + 1) * super_bytes();
  }
  constexpr std::size_t super_place(std::size_t first, std::size_t block) const {
    return place(first, block) - blocks_after_super(first, block) * block_bytes() - super_bytes();
  }
  // From the elements of a block to those of the next one.
  constexpr std::size_t step(std::size_t first, std::size_t block) const {
    return block_bytes() + ((first + block + 1) % 4 == 0 ? super_bytes() : 0);
  }
  // Of a panel of so many blocks.
  constexpr std::size_t panel_bytes(std::size_t first, std::size_t blocks) const {
    return blocks == 0 ? 0 : place(first, blocks - 1) + block_bytes();
  }

  // Blocks between a block and the beginning of its super-block in the panel.
  static constexpr std::size_t blocks_after_super(std::size_t first, std::size_t block) {
    const std::size_t in_super = (first + block) % 4;
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

// In the order of WeightType.
inline constexpr const QuantFormat* kQuantFormats[] = {&kQ4K, &kQ5K, &kQ6K,   &kQ3K,   &kQ2K,  &kQ41,
                                                       &kQ50, &kQ51, &kIq4Nl, &kIq4Xs, &kMxfp4};

// What 4 bits stand for, with the format's `zero` added. Source: ggml, kvalues_iq4nl and kvalues_mxfp4.
inline constexpr std::uint8_t kIq4Values[16] = {1,   24,  45,  63,  79,  93,  106, 118,
                                                129, 141, 153, 166, 181, 197, 217, 241};
inline constexpr std::uint8_t kMxfp4Values[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};
constexpr const std::uint8_t* values_of(Codebook codebook) {
  return codebook == Codebook::iq4 ? kIq4Values : codebook == Codebook::mxfp4 ? kMxfp4Values : nullptr;
}

// An E8M0 scale's bits as float32: half of 2^(exponent - 127), of which the first two are subnormal.
constexpr std::uint32_t half_of_e8m0(std::uint32_t exponent) {
  return exponent < 2 ? 0x00200000U << exponent : (exponent - 1) << 23;
}

}  // namespace tp::kernels
