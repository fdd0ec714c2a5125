// Reads the strings of types with codes; see StringLayout. For simd/*.cc only: everything is local to the
// translation unit. See simd.h for the restrictions.
#pragma once

#include "model/kernels/simd/pack/grid_format.h"
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
  [[gnu::always_inline]] WordVector byte(std::size_t index) const {
    if (index < 4 * layout.words) return bits_from(word(index / 4), index % 4 * 8, 0xff);
    const unsigned char* const p = block + layout.place_of_byte(index);
    if (index < 4 * layout.words + layout.bytes) return words_of(load_bytes(p));
    std::uint64_t both = 0;
    __builtin_memcpy(&both, p, sizeof(both));
    const std::uint64_t halves[] = {both & 0x0f0f0f0f0f0f0f0fU, both >> 4 & 0x0f0f0f0f0f0f0f0fU};
    return words_of(load_bytes(reinterpret_cast<const unsigned char*>(halves)));
  }
  // Up to 32 bits from byte `begin` on. The bits above them are undefined.
  [[gnu::always_inline]] WordVector bits(std::size_t begin, std::size_t count) const {
    const std::size_t first = begin / 4;
    const std::size_t shift = begin % 4 * 8;
    if (8 * begin + count <= 32 * layout.words) {
      WordVector words = bits_from(word(first), shift, ~0U);
      if (shift + count > 32) join(words, word(first + 1), 32 - shift);
      return words;
    }
    WordVector out = {};
    for (std::size_t i = 0; 8 * i < count; ++i) join(out, byte(begin + i), 8 * i);
    return out;
  }
};

}  // namespace
}  // namespace tp::kernels
