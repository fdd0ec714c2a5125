// Sums of products of bytes, in the widths in which instructions add. For simd/*.cc only: everything is local
// to the translation unit.
#pragma once

#include "model/kernels/simd/vector/vector.h"

#include <cstddef>
#include <cstdint>

namespace tp::kernels {
namespace {

// Forces the additions to `sum` to happen now. Otherwise g++ 12 would load the weights of many additions
// first on ARM, and multiply first on AVX2, and keep these numbers in memory.
inline void pin_sum([[maybe_unused]] IntVector& sum) {
#if defined(TP_NEON)
  for (std::size_t i = 0; i < kParts; ++i) asm("" : "+w"(sum.part[i]));
#elif defined(__AVX2__) && !defined(__AVX512F__) && !defined(TP_HAS_BYTE_SUMS)
  for (std::size_t i = 0; i < kParts; ++i) asm("" : "+x"(sum.part[i]));
#endif
}

// Adds products to a sum: QuadSums(sum), then add() some times, then sum = total(sum).
#if defined(__AVX2__) && !defined(TP_HAS_BYTE_SUMS)
// Sums of 16 bits, hence at most kQuadsOfSum<largest> products of elements up to `largest` with bytes up to
// 127. Adding pairs up to 32 bits takes as long as multiplying.
class QuadSums {
 public:
  QuadSums() = default;
  explicit QuadSums(const IntVector& /*sum*/) {}

  void add(const WordVector& w, const std::int8_t* x) {
    for (std::size_t i = 0; i < kParts; ++i) part_[i] += products_of_pairs(w.part[i], four_bytes(x));
  }
  // Forces all additions to happen now: a compiler would keep products in memory and add them in pairs.
  void pin() {
    for (std::size_t i = 0; i < kParts; ++i) asm("" : "+v"(part_[i]));
  }
  IntVector total(IntVector sum) const {
    for (std::size_t i = 0; i < kParts; ++i) {
      sum.part[i] += sums_of_pairs(part_[i]);
      asm("" : "+v"(sum.part[i]));  // see pin
    }
    return sum;
  }

 private:
  ShortRegister part_[kParts] = {};
};
template <int kLargest>
constexpr std::size_t kQuadsOfSum = 32767 / (2 * 127 * kLargest) >= 8   ? 8
                                    : 32767 / (2 * 127 * kLargest) >= 4 ? 4
                                                                        : 2;
#elif defined(TP_NEON) && !defined(TP_HAS_BYTE_SUMS)
// Sums of 16 bits, one for each byte of a quad, hence at most kQuadsOfSum<largest> products.
class QuadSums {
 public:
  QuadSums() = default;
  explicit QuadSums(const IntVector& /*sum*/) {}

  void add(const WordVector& w, const std::int8_t* x) {
    const int8x16_t x4 = neon_four_bytes(x);
    for (std::size_t i = 0; i < kParts; ++i) {
      const auto bytes = (int8x16_t)w.part[i];
      lower_[i] = vmlal_s8(lower_[i], vget_low_s8(bytes), vget_low_s8(x4));
      upper_[i] = vmlal_high_s8(upper_[i], bytes, x4);
    }
  }
  void pin() {
    for (std::size_t i = 0; i < kParts; ++i) asm("" : "+w"(lower_[i]), "+w"(upper_[i]));
  }
  IntVector total(IntVector sum) const {
    for (std::size_t i = 0; i < kParts; ++i)
      sum.part[i] += (IntRegister)vpaddq_s32(vpaddlq_s16(lower_[i]), vpaddlq_s16(upper_[i]));
    return sum;
  }

 private:
  int16x8_t lower_[kParts] = {};
  int16x8_t upper_[kParts] = {};
};
template <int kLargest>
constexpr std::size_t kQuadsOfSum = 32767 / (127 * kLargest) >= 8 ? 8
                                    : 32767 / (127 * kLargest) >= 4 ? 4
                                                                    : 2;
#else
class QuadSums {
 public:
  QuadSums() = default;
  explicit QuadSums(const IntVector& sum) : sum_(sum) {}

  void add(const WordVector& w, const std::int8_t* x) { dot_bytes(w, x, sum_); }
  void pin() { pin_sum(sum_); }
  const IntVector& total(const IntVector& /*sum*/) const { return sum_; }

 private:
  IntVector sum_{};
};
template <int kLargest>
constexpr std::size_t kQuadsOfSum = 8;
#endif

#if (defined(__AVX2__) && !defined(TP_HAS_BYTE_SUMS)) || defined(TP_NEON)
// For elements with 128 added, in 32 bits: sums of pairs of their products exceed 16 bits.
class BiasedQuadSums {
 public:
  BiasedQuadSums() = default;
  explicit BiasedQuadSums(const IntVector& sum) : sum_(sum) {}

  void add(const WordVector& w, const std::int8_t* x) { dot_biased_bytes(w, x, sum_); }
  void pin() { pin_sum(sum_); }
  const IntVector& total(const IntVector& /*sum*/) const { return sum_; }

 private:
  IntVector sum_{};
};
#else
using BiasedQuadSums = QuadSums;
#endif

// Vectors of registers that the sums of a QuadSums take.
constexpr std::size_t kVectorsOfSum = sizeof(QuadSums) / (kParts * kRegisterBytes);

}  // namespace
}  // namespace tp::kernels
