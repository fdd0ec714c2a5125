// Compiled once per instruction set; see simd.h for the restrictions.

#include "model/kernels/simd/matmul/packed.h"
#include "model/kernels/simd/vector/vector.h"

#ifndef TP_ISA_NAMESPACE
#error "compile with -DTP_ISA_NAMESPACE=portable, avx2, ..."
#endif

namespace tp::kernels::TP_ISA_NAMESPACE {
namespace {

// Reads two streams, like products of packed weights. Prefetches this far ahead, a few lines at a time, to
// the second-level cache, which waits for more lines at a time than the first-level cache.
constexpr std::size_t kPrefetchBytes = 4096;
constexpr std::size_t kLines = 4;

float stream(const unsigned char* data, std::size_t bytes) {
  WordVector sums[kLines] = {};
  const std::size_t half = bytes / 2;
  for (std::size_t i = 0; i < half; i += kLines * kVectorBytes) {
    const unsigned char* const streams[] = {data + i, data + half + i};
    for (const unsigned char* lines : streams) {
      for (std::size_t j = 0; j < kLines; ++j) {
        __builtin_prefetch(lines + j * kVectorBytes + kPrefetchBytes, 0, 2);
        sums[j] ^= load_words(lines + j * kVectorBytes);
      }
    }
  }
  std::uint32_t folded = 0;
  for (const WordVector& sum : sums) {
    for (const WordRegister& part : sum.part) {
      for (std::size_t i = 0; i < kLanes / kParts; ++i) folded ^= part[i];
    }
  }
  return static_cast<float>(folded);
}

// Independent accumulators: enough to hide the latency of a multiplication.
#if defined(__AVX512F__) || defined(TP_NEON)
constexpr std::size_t kChains = 16;
#else
constexpr std::size_t kChains = 10;
#endif
constexpr std::size_t kRegisterLanes = kRegisterBytes / 4;

// The constraint of an operand in a vector register.
#if defined(__aarch64__)
#define TP_IN_VECTOR "w"
#else
#define TP_IN_VECTOR "v"
#endif

// Hides the value from the compiler, which could otherwise compute results without running the loop, or only
// once for all chains.
template <class Register>
Register hidden(Register value) {
  asm volatile("" : "+" TP_IN_VECTOR(value));
  return value;
}

template <class Register>
void discard(const Register (&sums)[kChains]) {
  for (const Register& sum : sums) asm volatile("" : : TP_IN_VECTOR(sum));
}

double multiply_f32(std::size_t rounds) {
  const FloatRegister factor = hidden(FloatRegister{} + 1.0F);
  FloatRegister sums[kChains];
  for (FloatRegister& sum : sums) sum = hidden(FloatRegister{});
  for (std::size_t round = 0; round < rounds; ++round) {
    for (FloatRegister& sum : sums) sum += factor * factor;
  }
  discard(sums);
  return 2.0 * kRegisterLanes * kChains * static_cast<double>(rounds);
}

#if defined(__AVX512BF16__)
double multiply_bf16(std::size_t rounds) {
  const auto factor = (__m512bh)hidden(WordRegister{} + 0x3f803f80U);
  __m512 sums[kChains];
  for (__m512& sum : sums) sum = hidden(__m512{});
  for (std::size_t round = 0; round < rounds; ++round) {
    for (__m512& sum : sums) sum = _mm512_dpbf16_ps(sum, factor, factor);
  }
  discard(sums);
  return 4.0 * kRegisterLanes * kChains * static_cast<double>(rounds);
}
constexpr auto kMultiplyBf16 = multiply_bf16;
#elif defined(TP_HAS_BF16_MATRICES)
double multiply_bf16(std::size_t rounds) {
  const auto factor = (uint8x16_t)hidden(WordRegister{} + 0x3f803f80U);
  FloatRegister sums[kChains];
  for (FloatRegister& sum : sums) sum = hidden(FloatRegister{});
  for (std::size_t round = 0; round < rounds; ++round) {
    for (FloatRegister& sum : sums) sum = (FloatRegister)neon_multiply_rows((float32x4_t)sum, factor, factor);
  }
  discard(sums);
  return 8.0 * kRegisterLanes * kChains * static_cast<double>(rounds);
}
constexpr auto kMultiplyBf16 = multiply_bf16;
#else
constexpr double (*kMultiplyBf16)(std::size_t) = nullptr;
#endif

#if defined(__AVX512VNNI__)
double multiply_int8(std::size_t rounds) {
  const auto factor = (__m512i)hidden(WordRegister{} + 0x01010101U);
  __m512i sums[kChains];
  for (__m512i& sum : sums) sum = hidden(__m512i{});
  for (std::size_t round = 0; round < rounds; ++round) {
    for (__m512i& sum : sums) sum = _mm512_dpbusd_epi32(sum, factor, factor);
  }
  discard(sums);
  return 8.0 * kRegisterLanes * kChains * static_cast<double>(rounds);
}
constexpr auto kMultiplyInt8 = multiply_int8;
#elif defined(TP_HAS_BYTE_MATRICES)
double multiply_int8(std::size_t rounds) {
  const auto factor = (uint8x16_t)hidden(WordRegister{} + 0x01010101U);
  IntRegister sums[kChains];
  for (IntRegister& sum : sums) sum = hidden(IntRegister{});
  for (std::size_t round = 0; round < rounds; ++round) {
    for (IntRegister& sum : sums) sum = (IntRegister)neon_multiply_rows((int32x4_t)sum, factor, factor);
  }
  discard(sums);
  return 16.0 * kRegisterLanes * kChains * static_cast<double>(rounds);
}
constexpr auto kMultiplyInt8 = multiply_int8;
#elif defined(TP_NEON) && defined(TP_HAS_BYTE_SUMS)
double multiply_int8(std::size_t rounds) {
  const auto factor = (int8x16_t)hidden(WordRegister{} + 0x01010101U);
  IntRegister sums[kChains];
  for (IntRegister& sum : sums) sum = hidden(IntRegister{});
  for (std::size_t round = 0; round < rounds; ++round) {
    for (IntRegister& sum : sums) sum = (IntRegister)neon_dot((int32x4_t)sum, factor, factor);
  }
  discard(sums);
  return 8.0 * kRegisterLanes * kChains * static_cast<double>(rounds);
}
constexpr auto kMultiplyInt8 = multiply_int8;
#else
constexpr double (*kMultiplyInt8)(std::size_t) = nullptr;
#endif

}  // namespace

extern const PeakKernels kPeakKernels;
const PeakKernels kPeakKernels = {stream, multiply_f32, kMultiplyBf16, kMultiplyInt8};

}  // namespace tp::kernels::TP_ISA_NAMESPACE
