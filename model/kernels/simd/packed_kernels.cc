// Compiled once for every instruction set; see simd.h for what may not be used here.

#include "model/kernels/simd/packed.h"
#include "model/kernels/simd/vector.h"

#ifndef TP_ISA_NAMESPACE
#error "compile with -DTP_ISA_NAMESPACE=portable, avx2, ..."
#endif

namespace tp::kernels::TP_ISA_NAMESPACE {
namespace {

constexpr std::size_t kPanel = 16;
constexpr std::size_t kGroup = 32;
constexpr std::size_t kBlock = 64;
constexpr std::size_t kScaleBytes = 2 * kPanel * 2;

// Tokens that share one pass over a panel: their sums must stay in registers.
#if defined(__AVX512F__)
constexpr std::size_t kTokens = kRegisterBytes == 64 ? 8 : 4;
#else
constexpr std::size_t kTokens = 4;
#endif

// Weights are fetched this far ahead of their use.
constexpr std::size_t kPrefetchBytes = 2048;

void write(const Vector& sum, float* y, std::size_t width) {
  if (width >= kPanel) return store(sum, y);
  float elements[kPanel];
  store(sum, elements);
  for (std::size_t i = 0; i < width; ++i) y[i] = elements[i];
}

// Panels that stay in the second-level cache while all tokens pass over them.
constexpr std::size_t kResidentBytes = 384 * 1024;

// The tokens from `first` on over `count` panels from `panel` on: T tokens at a time, and what is left in
// halves. A group of T tokens stays in the first-level cache for all panels.
template <std::size_t T, class Tile>
void run_tokens(const Tile& tile, std::size_t panel, std::size_t count, std::size_t first) {
  const PanelProduct& p = tile.p;
  for (; first + T <= p.tokens; first += T) {
    for (std::size_t i = panel; i < panel + count; ++i) {
      tile.template run<T>(p.panels + i * p.panel_bytes, first, p.y + first * p.y_stride + i * kPanel,
                           p.out_features - i * kPanel);
    }
  }
  if constexpr (T > 1) run_tokens<T / 2>(tile, panel, count, first);
}

template <class Tile>
void run_panels(const Tile& tile) {
  const PanelProduct& p = tile.p;
  // The bytes are 0 where a rank owns no input feature.
  const std::size_t fitting = kResidentBytes / (p.panel_bytes + 1) + 1;
  // A single group of tokens reads every panel once, in order.
  const std::size_t resident = p.tokens <= kTokens ? 1 : fitting;
  for (std::size_t panel = 0; panel < p.count; panel += resident) {
    const std::size_t count = p.count - panel < resident ? p.count - panel : resident;
    run_tokens<kTokens>(tile, panel, count, 0);
  }
}

// Two sums a token, for the even and the odd elements: enough additions in flight also for one token.
struct Bf16Tile {
  const PanelProduct& p;

  template <std::size_t T>
  void run(const unsigned char* weights, std::size_t first, float* y, std::size_t width) const {
    const float* x = p.x + first * p.x_stride;
    Vector even[T] = {};
    Vector odd[T] = {};
    for (std::size_t k = 0; k < p.in_features; k += 2, weights += kVectorBytes) {
      __builtin_prefetch(weights + kPrefetchBytes);
      const WordVector w = load_words(weights);
      const Vector low = even_bf16(w);
      const Vector high = odd_bf16(w);
      for (std::size_t t = 0; t < T; ++t) {
        multiply_add(low, x[t * p.x_stride + k], even[t]);
        multiply_add(high, x[t * p.x_stride + k + 1], odd[t]);
      }
    }
    for (std::size_t t = 0; t < T; ++t) {
      even[t] += odd[t];
      write(even[t], y + t * p.y_stride, width);
    }
  }
};

struct F16Tile {
  const PanelProduct& p;

  template <std::size_t T>
  void run(const unsigned char* weights, std::size_t first, float* y, std::size_t width) const {
    const float* x = p.x + first * p.x_stride;
    Vector sums[T] = {};
    Vector others[T] = {};
    std::size_t k = 0;
    for (; k + 2 <= p.in_features; k += 2, weights += kVectorBytes) {
      __builtin_prefetch(weights + kPrefetchBytes);
      const Vector w0 = load_f16(weights);
      const Vector w1 = load_f16(weights + kVectorBytes / 2);
      for (std::size_t t = 0; t < T; ++t) {
        multiply_add(w0, x[t * p.x_stride + k], sums[t]);
        multiply_add(w1, x[t * p.x_stride + k + 1], others[t]);
      }
    }
    if (k < p.in_features) {
      const Vector w = load_f16(weights);
      for (std::size_t t = 0; t < T; ++t) multiply_add(w, x[t * p.x_stride + k], sums[t]);
    }
    for (std::size_t t = 0; t < T; ++t) {
      sums[t] += others[t];
      write(sums[t], y + t * p.y_stride, width);
    }
  }
};

struct Int8Tile {
  const PanelProduct& p;

  template <std::size_t T>
  void run(const unsigned char* weights, std::size_t first, float* y, std::size_t width) const {
    const std::size_t groups = p.in_features / kGroup;
    const std::int8_t* x = p.x_bytes + first * p.in_features;
    Vector results[T] = {};
    for (std::size_t block = 0; block < p.in_features; block += kBlock) {
      const unsigned char* scales = weights + kPanel * kBlock;
      for (std::size_t g = 0; g < 2; ++g) {
        const std::size_t group = block / kGroup + g;
        IntVector sums[T];
        for (std::size_t t = 0; t < T; ++t) {
          sums[t] = broadcast(kBiasedDotIsExact ? 0 : -128 * p.x_sums[(first + t) * groups + group]);
        }
        for (std::size_t i = 0; i < kGroup; i += 4, weights += kVectorBytes) {
          __builtin_prefetch(weights + kPrefetchBytes);
          const WordVector w = load_words(weights);
          for (std::size_t t = 0; t < T; ++t) {
            dot_biased_bytes(w, x + t * p.in_features + group * kGroup + i, sums[t]);
          }
        }
        const Vector scale = load_f16(scales + g * kPanel * 2);
        for (std::size_t t = 0; t < T; ++t) {
          add_scaled(sums[t], scale, p.x_scales[(first + t) * groups + group], results[t]);
        }
      }
      weights += kScaleBytes;
    }
    for (std::size_t t = 0; t < T; ++t) write(results[t], y + t * p.y_stride, width);
  }
};

struct Int4Tile {
  const PanelProduct& p;

  template <std::size_t T>
  void run(const unsigned char* weights, std::size_t first, float* y, std::size_t width) const {
    const std::size_t groups = p.in_features / kGroup;
    const std::int8_t* x = p.x_bytes + first * p.in_features;
    Vector results[T] = {};
    for (std::size_t block = 0; block < p.in_features; block += kBlock) {
      const std::size_t group = block / kGroup;
      IntVector low[T];
      IntVector high[T];
      for (std::size_t t = 0; t < T; ++t) {
        low[t] = broadcast(-8 * p.x_sums[(first + t) * groups + group]);
        high[t] = broadcast(-8 * p.x_sums[(first + t) * groups + group + 1]);
      }
      for (std::size_t i = 0; i < kGroup; i += 4, weights += kVectorBytes) {
        __builtin_prefetch(weights + kPrefetchBytes);
        const WordVector w = load_words(weights);
        const WordVector w_low = low_halves(w);
        const WordVector w_high = high_halves(w);
        for (std::size_t t = 0; t < T; ++t) {
          const std::int8_t* four = x + t * p.in_features + block + i;
          dot_bytes(w_low, four, low[t]);
          dot_bytes(w_high, four + kGroup, high[t]);
        }
      }
      const Vector scale_low = load_f16(weights);
      const Vector scale_high = load_f16(weights + kPanel * 2);
      for (std::size_t t = 0; t < T; ++t) {
        add_scaled(low[t], scale_low, p.x_scales[(first + t) * groups + group], results[t]);
        add_scaled(high[t], scale_high, p.x_scales[(first + t) * groups + group + 1], results[t]);
      }
      weights += kScaleBytes;
    }
    for (std::size_t t = 0; t < T; ++t) write(results[t], y + t * p.y_stride, width);
  }
};

void f16(const PanelProduct& p) { run_panels(F16Tile{p}); }
void bf16(const PanelProduct& p) { run_panels(Bf16Tile{p}); }
void int8(const PanelProduct& p) { run_panels(Int8Tile{p}); }
void int4(const PanelProduct& p) { run_panels(Int4Tile{p}); }

#if defined(__AVX512BF16__)
struct Bf16PairTile {
  const PanelProduct& p;

  template <std::size_t T>
  void run(const unsigned char* weights, std::size_t first, float* y, std::size_t width) const {
    const std::size_t pairs = p.in_features / 2;
    const std::uint32_t* x = p.x_pairs + first * pairs;
    Vector sums[T] = {};
    for (std::size_t k = 0; k < pairs; ++k, weights += kVectorBytes) {
      const auto w = (__m512bh)load_words(weights).part[0];
      for (std::size_t t = 0; t < T; ++t) {
        const auto both = (__m512bh)_mm512_set1_epi32(static_cast<int>(x[t * pairs + k]));
        sums[t].part[0] = (FloatRegister)_mm512_dpbf16_ps((__m512)sums[t].part[0], w, both);
      }
    }
    for (std::size_t t = 0; t < T; ++t) write(sums[t], y + t * p.y_stride, width);
  }
};
void bf16_pairs(const PanelProduct& p) { run_panels(Bf16PairTile{p}); }
constexpr auto kBf16Pairs = bf16_pairs;
#else
constexpr void (*kBf16Pairs)(const PanelProduct&) = nullptr;
#endif

void quantize(const float* x, std::size_t size, std::int8_t* bytes, float* scales, std::int32_t* sums) {
  for (std::size_t group = 0; group < size / kGroup; ++group, x += kGroup, bytes += kGroup) {
    float largest = 0.0F;
#pragma omp simd reduction(max : largest)
    for (std::size_t i = 0; i < kGroup; ++i) {
      const float magnitude = x[i] < 0 ? -x[i] : x[i];
      largest = magnitude > largest ? magnitude : largest;
    }
    scales[group] = largest / 127.0F;
    const float inverse = largest == 0.0F ? 0.0F : 127.0F / largest;
    std::int32_t sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::size_t i = 0; i < kGroup; ++i) {
      // Rounds to nearest by adding 1.5 * 2^23, whose unit in the last place is 1.
      const float shifted = x[i] * inverse + 12582912.0F;
      const auto element = static_cast<std::int32_t>(shifted - 12582912.0F);
      bytes[i] = static_cast<std::int8_t>(element);
      sum += element;
    }
    sums[group] = sum;
  }
}

inline std::uint32_t bf16_bits(float value) {
  std::uint32_t bits;
  __builtin_memcpy(&bits, &value, sizeof(bits));
  return (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
}

void round_pairs(const float* x, std::size_t size, std::uint32_t* pairs) {
#pragma omp simd
  for (std::size_t i = 0; i < size / 2; ++i) pairs[i] = bf16_bits(x[2 * i]) | bf16_bits(x[2 * i + 1]) << 16;
}

float stream(const unsigned char* data, std::size_t bytes) {
  WordVector sums[4] = {};
  for (std::size_t i = 0; i < bytes; i += 4 * kVectorBytes) {
    for (std::size_t j = 0; j < 4; ++j) {
      __builtin_prefetch(data + i + j * kVectorBytes + kPrefetchBytes);
      sums[j] ^= load_words(data + i + j * kVectorBytes);
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

// So many registers are summed up in turn: enough to hide the latency of a multiplication.
constexpr std::size_t kChains = kRegisterBytes == 64 ? 16 : 10;
constexpr std::size_t kRegisterLanes = kRegisterBytes / 4;

// The compiler must not know the value, or it would compute results without running the loop, or once for all
// chains.
template <class Register>
Register hidden(Register value) {
  asm volatile("" : "+v"(value));
  return value;
}

template <class Register>
void discard(const Register (&sums)[kChains]) {
  for (const Register& sum : sums) asm volatile("" : : "v"(sum));
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
#else
constexpr double (*kMultiplyInt8)(std::size_t) = nullptr;
#endif

}  // namespace

extern const PackedKernels kPackedKernels;
const PackedKernels kPackedKernels = {f16,          bf16,          kBf16Pairs,   int8,
                                      int4,         quantize,      round_pairs,  stream,
                                      multiply_f32, kMultiplyBf16, kMultiplyInt8};

}  // namespace tp::kernels::TP_ISA_NAMESPACE
