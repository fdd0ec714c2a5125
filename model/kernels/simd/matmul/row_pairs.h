// Sums of products of two tokens with a panel, for instructions that multiply two rows of eight bytes by two
// others. For simd/*.cc only: everything is local to the translation unit.
#pragma once

#include "model/kernels/simd/vector/vector.h"

#include <cstddef>
#include <type_traits>

#if defined(TP_HAS_BYTE_MATRICES) || defined(TP_HAS_BF16_MATRICES)
namespace tp::kernels {
namespace {

// Two successive words of each of a panel's 16 outputs, as rows of eight bytes.
class PanelRows {
 public:
  PanelRows(const WordVector& first, const WordVector& second) {
    for (std::size_t i = 0; i < kParts; ++i) {
      const auto a = (uint32x4_t)first.part[i];
      const auto b = (uint32x4_t)second.part[i];
      rows_[2 * i] = vreinterpretq_u8_u32(vzip1q_u32(a, b));
      rows_[2 * i + 1] = vreinterpretq_u8_u32(vzip2q_u32(a, b));
    }
  }
  // Outputs 2 i and 2 i + 1.
  uint8x16_t rows(std::size_t i) const { return rows_[i]; }

 private:
  uint8x16_t rows_[2 * kParts];
};

// `Register`: FloatRegister for bf16, IntRegister for bytes.
template <class Register>
class RowPairSums {
 public:
  // `x`: eight bytes of each of two tokens.
  void add(const PanelRows& weights, uint8x16_t x) {
    for (std::size_t i = 0; i < 2 * kParts; ++i) sums_[i] = neon_multiply_rows(sums_[i], x, weights.rows(i));
  }
  // The sums of the first or of the second token.
  Wide<Register> of(bool second) const {
    Wide<Register> out;
    for (std::size_t i = 0; i < kParts; ++i) {
      const auto a = (int64x2_t)sums_[2 * i];
      const auto b = (int64x2_t)sums_[2 * i + 1];
      out.part[i] = (Register)(second ? vzip2q_s64(a, b) : vzip1q_s64(a, b));
    }
    return out;
  }

 private:
  using Sum = std::conditional_t<std::is_same_v<Register, FloatRegister>, float32x4_t, int32x4_t>;
  // Two tokens with two outputs each.
  Sum sums_[2 * kParts] = {};
};

// The place of the second token of a pair: an odd last token is multiplied twice.
constexpr std::size_t second_of_pair(std::size_t pair, std::size_t tokens) {
  return 2 * pair + 1 < tokens ? 2 * pair + 1 : 2 * pair;
}

}  // namespace
}  // namespace tp::kernels
#endif
