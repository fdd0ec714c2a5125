// Looks up rows of a grid; see GridFormat. For simd/*.cc only: everything is local to the translation unit.
#pragma once

#include "model/kernels/simd/matmul/code_strings.h"
#include "model/kernels/simd/pack/quant_format.h"
#include "model/kernels/simd/vector/bytes.h"
#include "model/kernels/simd/vector/known.h"
#include "model/kernels/simd/vector/vector.h"

namespace tp::kernels {
namespace {

// The high bits of all indices of a block.
template <const GridFormat& G>
inline WordVector high_bits_of(const Strings& strings) {
  return strings.bits(G.sign_bytes(), G.high_bits * G.indices());
}

#if defined(__AVX512VBMI__)

// A whole grid fits in registers, or in a few cache lines. A byte of 64 packed entries is looked up at a
// time; levels then become elements.
template <const GridFormat& G>
class GridRows {
 public:
  explicit GridRows(const Strings& strings)
      : strings_(strings),
        high_((__m512i)high_bits_of<G>(strings).part[0]),
        levels_(_mm512_set1_epi64(load_word(G.levels))) {}

  // Calls write(quad, elements) for all quads. Each byte of a word is an element plus 128.
  template <class Write>
  [[gnu::always_inline]] void for_quads(const Write& write) const {
    for_known<0, G.indices() / 4>([&](auto four) __attribute__((always_inline)) {
      constexpr std::size_t kFirst = 4 * decltype(four)::value;
      write_four<kFirst>(write);
    });
  }

 private:
  static std::int64_t load_word(const std::uint8_t* p) {
    std::int64_t word = 0;
    __builtin_memcpy(&word, p, sizeof(word));
    return word;
  }
  // A control for both rows of a quadword: each byte takes 8 bits from its place on.
  static __m512i places(std::uint64_t of_bytes) {
    return _mm512_set1_epi64(static_cast<std::int64_t>(of_bytes));
  }
  static WordVector words(__m512i all) {
    WordVector out;
    out.part[0] = (WordRegister)all;
    return out;
  }
  __m512i elements(__m512i packed, std::uint64_t of_bytes) const {
    const __m512i levels = _mm512_maskz_multishift_epi64_epi8(~__mmask64{0}, places(of_bytes), packed);
    return _mm512_maskz_permutexvar_epi8(~__mmask64{0}, levels, levels_);
  }

  // The quads of four indices.
  template <std::size_t kFirst, class Write>
  [[gnu::always_inline]] void write_four(const Write& write) const {
    const auto index = (__m512i)strings_.bits(G.index_place() + kFirst, 32).part[0];
    __m512i low = index;
    __m512i high = index;
    look_up<kFirst>(index, low, high);
    if constexpr (G.width == 8) {
      write_wide<kFirst>(low, high, write);
    } else {
      write_narrow<kFirst>(low, high, write);
    }
  }

  // Replaces indices by the low and the high bytes of packed entries. An instruction finds a place among 128
  // bytes, which are a part of the table.
  template <std::size_t kFirst>
  [[gnu::always_inline]] void look_up(__m512i index, __m512i& low, __m512i& high) const {
    const __mmask64 has_bit_7 = _mm512_movepi8_mask(index);
    const __m512i parts = parts_of<kFirst>(has_bit_7);
    for_known<0, G.entries() / 128>([&](auto part) __attribute__((always_inline)) {
      constexpr std::size_t kPart = decltype(part)::value;
      const __mmask64 own = G.high_bits > 0 ? _mm512_cmpeq_epi8_mask(parts, _mm512_set1_epi8(kPart))
                            : kPart == 0    ? ~has_bit_7
                                            : has_bit_7;
      const std::uint8_t* const table = G.bytes + 128 * kPart;
      low = looked_up(table, low, own);
      high = looked_up(table + G.entries(), high, own);
    });
  }
  static __m512i looked_up(const std::uint8_t* table, __m512i places, __mmask64 own) {
    return _mm512_mask2_permutex2var_epi8(_mm512_loadu_si512(table), places, own,
                                          _mm512_loadu_si512(table + 64));
  }

  // Bits 7 and up of four indices, each in a byte.
  template <std::size_t kFirst>
  [[gnu::always_inline]] __m512i parts_of(__mmask64 has_bit_7) const {
    constexpr std::uint64_t kPlaces = 0x2020202000000000U + 0x0302010003020100U * G.high_bits +
                                      0x0101010101010101U * (kFirst * G.high_bits);
    const __m512i shifted = _mm512_maskz_multishift_epi64_epi8(~__mmask64{0}, places(kPlaces), high_);
    const __m512i high = _mm512_and_si512(shifted, _mm512_set1_epi8((1 << G.high_bits) - 1));
    const __m512i doubled = _mm512_add_epi8(high, high);
    return _mm512_mask_add_epi8(doubled, has_bit_7, doubled, _mm512_set1_epi8(1));
  }

  // Eight elements of two bits: a byte is a quad.
  template <std::size_t kFirst, class Write>
  [[gnu::always_inline]] void write_wide(__m512i low, __m512i high, const Write& write) const {
    for_known<0, 4>([&](auto k) __attribute__((always_inline)) {
      constexpr std::size_t kIndex = decltype(k)::value;
      constexpr std::uint64_t kPlaces = 0x2624222006040200U + 0x0808080808080808U * kIndex;
      write(2 * (kFirst + kIndex), words(elements(low, kPlaces)));
      write(2 * (kFirst + kIndex) + 1, words(elements(high, kPlaces)));
    });
  }

  // Four elements of three bits: two entries are the quadword of a row, and then two words of it.
  template <std::size_t kFirst, class Write>
  [[gnu::always_inline]] void write_narrow(__m512i low, __m512i high, const Write& write) const {
    const __m512i first_rows = _mm512_maskz_unpacklo_epi8(~__mmask64{0}, low, high);
    const __m512i last_rows = _mm512_maskz_unpackhi_epi8(~__mmask64{0}, low, high);
    for_known<0, 2>([&](auto k) __attribute__((always_inline)) {
      constexpr std::size_t kIndex = 2 * decltype(k)::value;
      constexpr std::uint64_t kPlaces = 0x1916131009060300U + 0x1010101010101010U * kIndex;
      const auto first = (__m512)elements(first_rows, kPlaces);
      const auto last = (__m512)elements(last_rows, kPlaces);
      write(kFirst + kIndex, words((__m512i)_mm512_maskz_shuffle_ps(0xffff, first, last, 0x88)));
      write(kFirst + kIndex + 1, words((__m512i)_mm512_maskz_shuffle_ps(0xffff, first, last, 0xdd)));
    });
  }

  const Strings& strings_;
  __m512i high_;
  __m512i levels_;
};

#else

// Reads a row's words from the table.
template <const GridFormat& G>
class GridRows {
 public:
  explicit GridRows(const Strings& strings) : strings_(strings), high_(high_bits_of<G>(strings)) {}

  // Calls write(quad, elements) for all quads. Each byte of a word is an element plus 128.
  template <class Write>
  [[gnu::always_inline]] void for_quads(const Write& write) const {
    constexpr std::size_t kWords = G.width / 4;  // an index has so many
    for_known<0, G.indices()>([&](auto index) __attribute__((always_inline)) {
      constexpr std::size_t kIndex = decltype(index)::value;
      WordVector rows[kWords];
      read_rows(places_of<kIndex>(), rows);
      for (std::size_t i = 0; i < kWords; ++i) write(kIndex * kWords + i, rows[i]);
    });
  }

 private:
  template <std::size_t kIndex>
  [[gnu::always_inline]] WordVector places_of() const {
    WordVector places = strings_.byte(G.index_place() + kIndex);
    if constexpr (G.high_bits > 0)
      join(places, bits_from(high_, kIndex * G.high_bits, (1U << G.high_bits) - 1), 8);
    return places;
  }

#if defined(__AVX2__) && !defined(__AVX512F__)
  // Loads take half as long as instructions that gather, on the processors that have no larger registers.
  template <std::size_t kWords>
  [[gnu::always_inline]] static void read_rows(const WordVector& places, WordVector (&rows)[kWords]) {
    std::uint32_t of_rows[kLanes];
    store(places, reinterpret_cast<unsigned char*>(of_rows));
    for (std::size_t i = 0; i < kParts; ++i) {
      const std::uint32_t* const p = of_rows + 8 * i;
      if constexpr (kWords == 1) {
        rows[0].part[i] = (WordRegister)_mm256_setr_epi32(word(p[0]), word(p[1]), word(p[2]), word(p[3]),
                                                          word(p[4]), word(p[5]), word(p[6]), word(p[7]));
      } else {
        const auto first = (__m256)_mm256_setr_epi64x(pair(p[0]), pair(p[1]), pair(p[4]), pair(p[5]));
        const auto last = (__m256)_mm256_setr_epi64x(pair(p[2]), pair(p[3]), pair(p[6]), pair(p[7]));
        rows[0].part[i] = (WordRegister)_mm256_shuffle_ps(first, last, 0x88);
        rows[1].part[i] = (WordRegister)_mm256_shuffle_ps(first, last, 0xdd);
      }
    }
  }
  static int word(std::uint32_t place) { return static_cast<int>(G.words[place]); }
  static std::int64_t pair(std::uint32_t place) {
    std::int64_t both = 0;
    __builtin_memcpy(&both, G.words + 2 * place, sizeof(both));
    return both;
  }
#else
  template <std::size_t kWords>
  [[gnu::always_inline]] static void read_rows(WordVector places, WordVector (&rows)[kWords]) {
    for (WordRegister& part : places.part) part *= static_cast<std::uint32_t>(kWords);
    for (std::size_t i = 0; i < kWords; ++i) rows[i] = gather(G.words + i, places);
  }
#endif

  const Strings& strings_;
  WordVector high_;
};

#endif

}  // namespace
}  // namespace tp::kernels
