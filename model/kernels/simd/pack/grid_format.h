// Strings of bits that hold rows of the types with codes; see QuantFormat and simd.h for the rules.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tp::kernels {

// How the signs of eight adjacent elements are stored.
enum class Signs : std::uint8_t {
  seven_bits,      // a bit for each of seven elements; the number of negative elements is even
  eight_bits,      // a bit for each element
  shift_of_eight,  // no signs: if a bit is set, eight elements are less by 2
  shift_of_group,  // like shift_of_eight, for a group; the bit is above the scale
};

// A type whose elements are rows of a grid. The string of a row's 64 columns contains, lowest bits first:
//   signs: byte k has bit k of each of the eight lots of eight columns; the first lot in the lowest bit;
//   the high bits of the grid's indices;
//   the low byte of each index;
//   a scale for each group. Its factor is 2 * scale + 1, divided by a power of two.
struct GridFormat {
  const std::uint32_t* words;  // the members of a Grid
  const std::uint8_t* bytes;
  const std::uint8_t* levels;
  std::size_t width;      // columns of an index: 4 or 8
  std::size_t high_bits;  // bits of an index above its low byte
  Signs signs;
  std::size_t scale_bits;
  float unit;  // factor of 2 * scale + 1

  constexpr bool has_signs() const { return signs == Signs::seven_bits || signs == Signs::eight_bits; }
  constexpr std::size_t indices() const { return 64 / width; }
  constexpr std::size_t entries() const { return std::size_t{256} << high_bits; }
  constexpr std::size_t sign_bytes() const {
    return signs == Signs::seven_bits       ? 7
           : signs == Signs::eight_bits     ? 8
           : signs == Signs::shift_of_eight ? 1
                                            : 0;
  }
  constexpr std::size_t high_bytes() const { return high_bits * indices() / 8; }
  constexpr std::size_t index_place() const { return sign_bytes() + high_bytes(); }
  constexpr std::size_t scale_place() const { return index_place() + indices(); }
  // Bits of a scale without a shift.
  constexpr std::size_t pure_scale_bits() const {
    return signs == Signs::shift_of_group ? scale_bits - 1 : scale_bits;
  }
  constexpr std::size_t bits(std::size_t groups) const { return 8 * scale_place() + scale_bits * groups; }
};

// TQ1_0: a byte holds five elements, the first in the highest of five digits of base 3. If a byte is b,
// the next digit is the integer part of 3 b / 256, and the fraction times 256 is the byte of the remaining
// digits. Byte i < 12 of a string has the elements of columns 20 (i / 4) + 4 n + i % 4, and the last byte has
// those of columns 60 + n.
inline constexpr std::size_t kTritBytes = 13;

// Places of a string's bytes in a block of 16 rows: whole words of four bytes, then single bytes, then half a
// byte of rows r and r + 8.
struct StringLayout {
  std::size_t words;
  std::size_t bytes;  // after the words
  bool has_half;

  constexpr explicit StringLayout(std::size_t bits)
      : words(bits / 32), bytes(bits % 32 / 8), has_half(bits % 8 != 0) {}
  constexpr std::size_t place_of_byte(std::size_t index) const {
    return words * 64 + (index - 4 * words) * 16;
  }
  // The byte `index` of a row in a block.
  std::uint32_t byte(const unsigned char* block, std::size_t row, std::size_t index) const {
    if (index < 4 * words) return block[index / 4 * 64 + row * 4 + index % 4];
    const unsigned char* const of_rows = block + place_of_byte(index);
    if (index < 4 * words + bytes) return of_rows[row];
    return of_rows[row % 8] >> (row / 8 * 4) & 15U;
  }
};

}  // namespace tp::kernels
