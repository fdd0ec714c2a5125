// Decodes blocks of the types with codes; see GridFormat. For simd/*.cc only: everything is local to the
// translation unit. See simd.h for the restrictions.
#pragma once

#include "model/kernels/simd/matmul/code_strings.h"
#include "model/kernels/simd/matmul/grid_rows.h"
#include "model/kernels/simd/pack/quant_format.h"
#include "model/kernels/simd/vector/vector.h"

namespace tp::kernels {
namespace {

// The scales of a grid's groups, with their shifts if they have any.
template <const GridFormat& G>
class GridScales {
 public:
  GridScales(const Strings& strings, std::size_t groups)
      : bits_(strings.bits(G.scale_place(), G.scale_bits * groups)) {}

  // A group's factors of the super-blocks' f16.
  Vector factors(std::size_t group) const {
    const WordVector scales = bits_from(bits_, group * G.scale_bits, (1U << G.pure_scale_bits()) - 1);
    Vector out;
    for (std::size_t i = 0; i < kParts; ++i) {
      const auto odd = (IntRegister)(scales.part[i] * 2 + 1);
      out.part[i] = __builtin_convertvector(odd, FloatRegister) * G.unit;
    }
    return out;
  }
  WordVector shift(std::size_t group) const {
    return bits_from(bits_, group * G.scale_bits + G.pure_scale_bits(), 1);
  }

 private:
  WordVector bits_;
};

// Changes signs of elements, each plus 128, of quads.
template <Signs kKind>
class GridSigns {
 public:
  explicit GridSigns(const Strings& strings) {
    signs_[0] = strings.word(0);
    signs_[1] = strings.word(1);
    if (kKind == Signs::eight_bits) return;
    for (std::size_t i = 0; i < kParts; ++i) {
      const WordRegister last = signs_[1].part[i] & 0xffffffU;
      WordRegister odd = signs_[0].part[i] ^ last;
      odd ^= odd << 16;
      odd ^= odd << 8;
      signs_[1].part[i] = last | (odd & 0xff000000U);
    }
  }

  void apply(std::size_t quad, WordVector& elements) const {
#if defined(__AVX512VBMI__)
    const __m512i bit = _mm512_set1_epi8(static_cast<char>(1U << quad / 2));
    const __mmask64 negative = _mm512_test_epi8_mask((__m512i)signs_[quad % 2].part[0], bit);
    const auto all = (__m512i)elements.part[0];
    elements.part[0] = (WordRegister)_mm512_mask_sub_epi8(all, negative, _mm512_setzero_si512(), all);
#else
    const WordVector negative = bits_from(signs_[quad % 2], quad / 2, 0x01010101U);
    for (std::size_t i = 0; i < kParts; ++i) {
      const WordRegister sign = negative.part[i];
      elements.part[i] = (elements.part[i] ^ ((sign << 8) - sign)) + sign;
    }
#endif
  }

 private:
  WordVector signs_[2];
};

inline void subtract_shift(const WordVector& shift, WordVector& elements) {
  for (std::size_t i = 0; i < kParts; ++i) elements.part[i] -= (0 - shift.part[i]) & 0x02020202U;
}

// Calls write(quad, words) for the 16 quads of a block. Each byte of a word is an element plus 128.
template <const GridFormat& G, class Write>
[[gnu::always_inline]] inline void for_grid_quads(const Strings& strings, const GridScales<G>& scales,
                                                  std::size_t group_quads, const Write& write) {
  const GridRows<G> rows(strings);
  if constexpr (G.has_signs()) {
    const GridSigns<G.signs> signs(strings);
    rows.for_quads([&](std::size_t quad, WordVector elements) __attribute__((always_inline)) {
      signs.apply(quad, elements);
      write(quad, elements);
    });
  } else {
    const WordVector shifts = strings.byte(0);
    rows.for_quads([&](std::size_t quad, WordVector elements) __attribute__((always_inline)) {
      subtract_shift(G.signs == Signs::shift_of_eight ? bits_from(shifts, quad / 2, 1)
                                                      : scales.shift(quad / group_quads),
                     elements);
      write(quad, elements);
    });
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
template <const QuantFormat& F, class Block>
[[gnu::noinline]] void unpack_codes(const unsigned char* block, const unsigned char* super, Block& out) {
  static_assert(Block::kIsBiased);
  const Strings strings{block, F.strings()};
  const Vector of_super = load_f16(super);
  const auto write = [&](std::size_t quad, const WordVector& elements) __attribute__((always_inline)) {
    store(elements, out.quads[quad]);
  };
  if constexpr (F.codebook == Codebook::trits) {
    for_trit_quads(strings, write);
    for (std::size_t g = 0; g < Block::kGroups; ++g) store(of_super, out.numbers[g]);
  } else {
    const GridScales<*F.grid> scales(strings, Block::kGroups);
    for_grid_quads<*F.grid>(strings, scales, Block::kGroupSize / 4, write);
    for (std::size_t g = 0; g < Block::kGroups; ++g) {
      Vector factors = scales.factors(g);
      for (std::size_t i = 0; i < kParts; ++i) factors.part[i] *= of_super.part[i];
      store(factors, out.numbers[g]);
    }
  }
}

}  // namespace
}  // namespace tp::kernels
