// Decodes blocks of the types with codes; see GridFormat. For simd/*.cc only: everything is local to the
// translation unit. See simd.h for the restrictions.
//
// A format is read at run time, so that compiling does not take longer with each format.
#pragma once

#include "model/kernels/simd/pack/quant_format.h"
#include "model/kernels/simd/vector/bytes.h"
#include "model/kernels/simd/vector/vector.h"

namespace tp::kernels {
namespace {

// Shifts down, then keeps bits.
template <class Numbers>
inline Numbers bits_from(Numbers numbers, std::size_t first, std::uint32_t mask) {
  for (auto& part : numbers.part) part = (part >> static_cast<int>(first)) & mask;
  return numbers;
}
template <class Numbers>
inline void join(Numbers& numbers, const Numbers& upper, std::size_t place) {
  for (std::size_t i = 0; i < kParts; ++i) numbers.part[i] |= upper.part[i] << static_cast<int>(place);
}

// The strings of 16 rows.
struct Strings {
  const unsigned char* block;
  StringLayout layout;

  WordVector word(std::size_t index) const { return load_words(block + index * kVectorBytes); }
  // Byte `index` of each row, or its half byte.
  WordVector byte(std::size_t index) const {
    if (index < 4 * layout.words) return bits_from(word(index / 4), index % 4 * 8, 0xff);
    const unsigned char* const p = block + layout.place_of_byte(index);
    if (index < 4 * layout.words + layout.bytes) return words_of(load_bytes(p));
    std::uint64_t both = 0;
    __builtin_memcpy(&both, p, sizeof(both));
    const std::uint64_t halves[] = {both & 0x0f0f0f0f0f0f0f0fU, both >> 4 & 0x0f0f0f0f0f0f0f0fU};
    return words_of(load_bytes(reinterpret_cast<const unsigned char*>(halves)));
  }
  // Up to 32 bits from byte `begin` on.
  WordVector bits(std::size_t begin, std::size_t count) const {
    WordVector out = {};
    for (std::size_t i = 0; 8 * i < count; ++i) join(out, byte(begin + i), 8 * i);
    return out;
  }
};

// The scales of a grid's groups, with their shifts if they have any.
class GridScales {
 public:
  GridScales(const GridFormat& grid, const Strings& strings, std::size_t groups)
      : grid_(grid), bits_(strings.bits(grid.scale_place(), grid.scale_bits * groups)) {}

  // A group's factors of the super-blocks' f16.
  Vector factors(std::size_t group) const {
    const WordVector scales = bits_from(bits_, group * grid_.scale_bits, (1U << grid_.pure_scale_bits()) - 1);
    Vector out;
    for (std::size_t i = 0; i < kParts; ++i) {
      const auto odd = (IntRegister)(scales.part[i] * 2 + 1);
      out.part[i] = __builtin_convertvector(odd, FloatRegister) * grid_.unit;
    }
    return out;
  }
  WordVector shift(std::size_t group) const {
    return bits_from(bits_, group * grid_.scale_bits + grid_.pure_scale_bits(), 1);
  }

 private:
  const GridFormat& grid_;
  WordVector bits_;
};

// Changes signs of elements, each plus 128, of quads.
class GridSigns {
 public:
  GridSigns(const GridFormat& grid, const Strings& strings) {
    signs_[0] = strings.word(0);
    signs_[1] = strings.word(1);
    if (grid.signs == Signs::eight_bits) return;
    for (std::size_t i = 0; i < kParts; ++i) {
      const WordRegister last = signs_[1].part[i] & 0xffffffU;
      WordRegister odd = signs_[0].part[i] ^ last;
      odd ^= odd << 16;
      odd ^= odd << 8;
      signs_[1].part[i] = last | (odd & 0xff000000U);
    }
  }

  void apply(std::size_t quad, WordVector& elements) const {
    const WordVector negative = bits_from(signs_[quad % 2], quad / 2, 0x01010101U);
    for (std::size_t i = 0; i < kParts; ++i) {
      const WordRegister sign = negative.part[i];
      elements.part[i] = (elements.part[i] ^ ((sign << 8) - sign)) + sign;
    }
  }

 private:
  WordVector signs_[2];
};

inline void subtract_shift(const WordVector& shift, WordVector& elements) {
  for (std::size_t i = 0; i < kParts; ++i) elements.part[i] -= (0 - shift.part[i]) & 0x02020202U;
}

// Calls write(quad, words) for the 16 quads of a block. Each byte of a word is an element plus 128.
template <class Write>
[[gnu::always_inline]] inline void for_grid_quads(const GridFormat& grid, const Strings& strings,
                                                  const GridScales& scales, std::size_t group_quads,
                                                  const Write& write) {
  const std::size_t quads = grid.width / 4;  // words of an index's row
  const WordVector high = strings.bits(grid.sign_bytes(), grid.high_bits * grid.indices());
  const WordVector shifts = strings.byte(0);
  const GridSigns signs(grid, strings);
  for (std::size_t i = 0; i < grid.indices(); ++i) {
    WordVector places = strings.byte(grid.index_place() + i);
    join(places, bits_from(high, i * grid.high_bits, (1U << grid.high_bits) - 1), 8);
    for (WordRegister& part : places.part) part *= static_cast<std::uint32_t>(quads);
    for (std::size_t j = 0; j < quads; ++j) {
      const std::size_t quad = i * quads + j;
      WordVector elements = gather(grid.words + j, places);
      if (grid.has_signs()) {
        signs.apply(quad, elements);
      } else {
        subtract_shift(grid.signs == Signs::shift_of_eight ? bits_from(shifts, quad / 2, 1)
                                                           : scales.shift(quad / group_quads),
                       elements);
      }
      write(quad, elements);
    }
  }
}

// Makes the next digits of base 3 of two bytes in each half of a word.
inline WordRegister next_digits(WordRegister& halves) {
  const WordRegister tripled = halves + halves + halves;
  halves = tripled & 0x00ff00ffU;
  return (tripled >> 8) & 0x00030003U;
}

// Like for_grid_quads, for TQ1_0.
template <class Write>
[[gnu::always_inline]] inline void for_trit_quads(const Strings& strings, const Write& write) {
  constexpr std::size_t kQuadsOfWord = 5;
  constexpr std::uint32_t kZero = 0x7f7f7f7fU;  // 128 - 1, because digit 0 is -1
  for (std::size_t word = 0; word < kTritBytes / 4; ++word) {
    WordVector even = strings.word(word);
    WordVector odd = bits_from(even, 8, 0x00ff00ffU);
    even = bits_from(even, 0, 0x00ff00ffU);
    for (std::size_t i = 0; i < kQuadsOfWord; ++i) {
      WordVector elements;
      for (std::size_t part = 0; part < kParts; ++part) {
        const WordRegister first = next_digits(even.part[part]);
        elements.part[part] = (first | (next_digits(odd.part[part]) << 8)) + kZero;
      }
      write(word * kQuadsOfWord + i, elements);
    }
  }
  WordVector last = strings.byte(kTritBytes - 1);
  WordVector elements = {};
  for (std::size_t i = 0; i < 4; ++i) {
    for (std::size_t part = 0; part < kParts; ++part)
      elements.part[part] |= next_digits(last.part[part]) << static_cast<int>(8 * i);
  }
  for (WordRegister& part : elements.part) part += kZero;
  write(15, elements);
}

// Decodes a block. Block is an UnpackedBlock of elements with 128 added.
template <class Block>
[[gnu::noinline]] void unpack_codes(const QuantFormat& format, const unsigned char* block,
                                    const unsigned char* super, Block& out) {
  static_assert(Block::kIsBiased);
  const Strings strings{block, format.strings()};
  const Vector of_super = load_f16(super);
  const auto write = [&](std::size_t quad, const WordVector& elements) __attribute__((always_inline)) {
    store(elements, out.quads[quad]);
  };
  if (format.codebook == Codebook::trits) {
    for_trit_quads(strings, write);
    for (std::size_t g = 0; g < Block::kGroups; ++g) store(of_super, out.numbers[g]);
    return;
  }
  const GridScales scales(*format.grid, strings, Block::kGroups);
  for_grid_quads(*format.grid, strings, scales, Block::kGroupSize / 4, write);
  for (std::size_t g = 0; g < Block::kGroups; ++g) {
    Vector factors = scales.factors(g);
    for (std::size_t i = 0; i < kParts; ++i) factors.part[i] *= of_super.part[i];
    store(factors, out.numbers[g]);
  }
}

}  // namespace
}  // namespace tp::kernels
