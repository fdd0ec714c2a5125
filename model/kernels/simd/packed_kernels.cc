// Compiled once for every instruction set; see simd.h for what may not be used here.

#include "model/kernels/simd/bf16.h"
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

// Registers that sums may take: the others hold weights and activations.
#if defined(__AVX512F__)
constexpr std::size_t kSumRegisters = 16;
#else
constexpr std::size_t kSumRegisters = 12;
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

// `tokens` <= T tokens from `first` on times one panel.
template <std::size_t T, class Tile>
void run_tokens(const Tile& tile, std::size_t panel, std::size_t first, std::size_t tokens) {
  if (tokens == T) {
    const PanelProduct& p = tile.p;
    tile.template run<T>(p.panels + panel * p.panel_bytes, first, p.y + first * p.y_stride + panel * kPanel,
                         p.out_features - panel * kPanel);
  } else if constexpr (T > 1) {
    run_tokens<T - 1>(tile, panel, first, tokens);
  }
}

// Tokens go over the panels in groups of equal size, as few as their sums in registers allow. A group stays
// in the first-level cache for all panels.
template <class Tile>
void run_panels(const Tile& tile) {
  const PanelProduct& p = tile.p;
  const std::size_t groups = (p.tokens + Tile::kTokens - 1) / Tile::kTokens;
  // The bytes are 0 where a rank owns no input feature.
  const std::size_t fitting = kResidentBytes / (p.panel_bytes + 1) + 1;
  // A single group of tokens reads every panel once, in order.
  const std::size_t resident = groups == 1 ? 1 : fitting;
  for (std::size_t begin = 0; begin < p.count; begin += resident) {
    const std::size_t end = p.count - begin < resident ? p.count : begin + resident;
    for (std::size_t group = 0; group < groups; ++group) {
      const std::size_t first = p.tokens * group / groups;
      const std::size_t tokens = p.tokens * (group + 1) / groups - first;
      for (std::size_t panel = begin; panel < end; ++panel) {
        run_tokens<Tile::kTokens>(tile, panel, first, tokens);
      }
    }
  }
}

// Two steps along the input, each 16 weights as float32.
struct F32Weights {
  static constexpr std::size_t kConstants = 0;
  static constexpr std::size_t kBytes = 2 * kVectorBytes;
  static Vector first(const unsigned char* w) { return load(reinterpret_cast<const float*>(w)); }
  static Vector second(const unsigned char* w) { return first(w + kVectorBytes); }
};

struct F16Weights {
  static constexpr std::size_t kConstants = 0;
  static constexpr std::size_t kBytes = kVectorBytes;
  static Vector first(const unsigned char* w) { return load_f16(w); }
  static Vector second(const unsigned char* w) { return load_f16(w + kVectorBytes / 2); }
};

struct Bf16Weights {
  static constexpr std::size_t kConstants = 1;
  static constexpr std::size_t kBytes = kVectorBytes;
  static Vector first(const unsigned char* w) { return even_bf16(load_words(w)); }
  static Vector second(const unsigned char* w) { return odd_bf16(load_words(w)); }
};

template <class Weights>
struct FloatTile {
  // A constant takes a register, too.
  static constexpr std::size_t kTokens = kParts == 1 ? 8 : (kSumRegisters - Weights::kConstants) / kParts;

  const PanelProduct& p;

  template <std::size_t T>
  void run(const unsigned char* weights, std::size_t begin, float* y, std::size_t width) const {
    // Few tokens have two sums each, to keep enough additions in flight.
    constexpr std::size_t kSums = 2 * T * kParts <= kSumRegisters ? 2 : 1;
    const std::size_t in_features = p.in_features;
    const float* x[T];
    for (std::size_t t = 0; t < T; ++t) x[t] = p.x + (begin + t) * p.x_stride;
    Vector sums[T][kSums] = {};
    std::size_t k = 0;
    for (; k + 2 <= in_features; k += 2, weights += Weights::kBytes) {
      for (std::size_t i = 0; i < Weights::kBytes; i += kVectorBytes) {
        __builtin_prefetch(weights + i + kPrefetchBytes);
      }
      const Vector first = Weights::first(weights);
      for (std::size_t t = 0; t < T; ++t) multiply_add(first, x[t][k], sums[t][0]);
      const unsigned char* again = weights;
      // Read again where it is needed: a compiler would keep both steps in registers, which sums need.
      if constexpr (kParts > 1) asm("" : "+r"(again));
      const Vector second = Weights::second(again);
      for (std::size_t t = 0; t < T; ++t) multiply_add(second, x[t][k + 1], sums[t][kSums - 1]);
    }
    if (k < in_features) {
      const Vector first = Weights::first(weights);
      for (std::size_t t = 0; t < T; ++t) multiply_add(first, x[t][k], sums[t][0]);
    }
    for (std::size_t t = 0; t < T; ++t) {
      if constexpr (kSums == 2) sums[t][0] += sums[t][1];
      write(sums[t][0], y + t * p.y_stride, width);
    }
  }
};

// Tokens of the integer kernels, which have a float and an integer sum each.
constexpr std::size_t kIntegerTokens = kParts == 1 ? 8 : kSumRegisters / kParts / 2 + 1;

struct Int8Tile {
  static constexpr std::size_t kTokens = kIntegerTokens;

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
          sums[t] = broadcast(kBiasedDotIsExact ? 0 : p.x_corrections[(first + t) * groups + group]);
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
  static constexpr std::size_t kTokens = kIntegerTokens;

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
        low[t] = broadcast(p.x_corrections[(first + t) * groups + group]);
        high[t] = broadcast(p.x_corrections[(first + t) * groups + group + 1]);
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

void f32(const PanelProduct& p) { run_panels(FloatTile<F32Weights>{p}); }
void f16(const PanelProduct& p) { run_panels(FloatTile<F16Weights>{p}); }
void bf16(const PanelProduct& p) { run_panels(FloatTile<Bf16Weights>{p}); }
void int8(const PanelProduct& p) { run_panels(Int8Tile{p}); }
void int4(const PanelProduct& p) { run_panels(Int4Tile{p}); }

#if defined(__AVX512BF16__)
struct Bf16PairTile {
  static constexpr std::size_t kTokens = 8;

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

void quantize(const float* x, std::size_t size, std::int32_t offset, std::int8_t* bytes, float* scales,
              std::int32_t* corrections) {
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
    corrections[group] = -offset * sum;
  }
}

void round_pairs(const float* x, std::size_t size, std::uint32_t* pairs) {
  std::size_t i = 0;
  for (; i + 32 <= size; i += 32) round_32_to_bf16(x + i, pairs + i / 2);
  if (i == size) return;
  float rest[32] = {};
  std::uint32_t rounded[16];
  for (std::size_t j = i; j < size; ++j) rest[j - i] = x[j];
  round_32_to_bf16(rest, rounded);
  for (std::size_t j = i; j < size; j += 2) pairs[j / 2] = rounded[(j - i) / 2];
}

}  // namespace

extern const PackedKernels kPackedKernels;
const PackedKernels kPackedKernels = {f32, f16, bf16, kBf16Pairs, int8, int4, quantize, round_pairs};

}  // namespace tp::kernels::TP_ISA_NAMESPACE
