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

// Adds products to independent sums, `rounds` times each: multiply(sum) returns the next sum. Returns the
// number of multiplications and additions; `products` is that of the multiplications of one instruction.
template <class Register, class Multiply>
[[gnu::always_inline]] inline double run_chains(std::size_t rounds, std::size_t products,
                                                const Multiply& multiply) {
  Register sums[kChains];
  for (Register& sum : sums) sum = hidden(Register{});
  for (std::size_t round = 0; round < rounds; ++round) {
    for (Register& sum : sums) sum = multiply(sum);
  }
  for (const Register& sum : sums) asm volatile("" : : TP_IN_VECTOR(sum));
  return 2.0 * static_cast<double>(products * kChains) * static_cast<double>(rounds);
}

double multiply_f32(std::size_t rounds) {
  const FloatRegister factor = hidden(FloatRegister{} + 1.0F);
  return run_chains<FloatRegister>(rounds, kRegisterLanes,
                                   [=](const FloatRegister& sum) { return sum + factor * factor; });
}

#if defined(__AVX512BF16__) || defined(TP_HAS_BF16_MATRICES)
double multiply_bf16(std::size_t rounds) {
  const WordRegister factor = hidden(WordRegister{} + 0x3f803f80U);
#if defined(TP_HAS_BF16_MATRICES)
  return run_chains<float32x4_t>(rounds, 4 * kRegisterLanes, [=](float32x4_t sum) {
    return neon_multiply_rows(sum, (uint8x16_t)factor, (uint8x16_t)factor);
  });
#else
  return run_chains<__m512>(rounds, 2 * kRegisterLanes, [=](const __m512& sum) {
    return _mm512_dpbf16_ps(sum, (__m512bh)factor, (__m512bh)factor);
  });
#endif
}
constexpr auto kMultiplyBf16 = multiply_bf16;
#else
constexpr double (*kMultiplyBf16)(std::size_t) = nullptr;
#endif

#if defined(__AVX512VNNI__) || (defined(TP_NEON) && defined(TP_HAS_BYTE_SUMS))
double multiply_int8(std::size_t rounds) {
  const WordRegister factor = hidden(WordRegister{} + 0x01010101U);
#if defined(TP_HAS_BYTE_MATRICES)
  return run_chains<int32x4_t>(rounds, 8 * kRegisterLanes, [=](int32x4_t sum) {
    return neon_multiply_rows(sum, (uint8x16_t)factor, (uint8x16_t)factor);
  });
#elif defined(TP_NEON)
  return run_chains<int32x4_t>(rounds, 4 * kRegisterLanes, [=](int32x4_t sum) {
    return neon_dot(sum, (int8x16_t)factor, (int8x16_t)factor);
  });
#else
  return run_chains<__m512i>(rounds, 4 * kRegisterLanes, [=](const __m512i& sum) {
    return _mm512_dpbusd_epi32(sum, (__m512i)factor, (__m512i)factor);
  });
#endif
}
constexpr auto kMultiplyInt8 = multiply_int8;
#else
constexpr double (*kMultiplyInt8)(std::size_t) = nullptr;
#endif

}  // namespace

extern const PeakKernels kPeakKernels;
const PeakKernels kPeakKernels = {stream, multiply_f32, kMultiplyBf16, kMultiplyInt8};

}  // namespace tp::kernels::TP_ISA_NAMESPACE
