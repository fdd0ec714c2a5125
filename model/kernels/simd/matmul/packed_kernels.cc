// Compiled once per instruction set; see simd.h for the restrictions.

#include "model/kernels/simd/matmul/chunk_passes.h"
#include "model/kernels/simd/matmul/float_tiles.h"
#include "model/kernels/simd/matmul/packed.h"
#include "model/kernels/simd/matmul/panel_passes.h"
#include "model/kernels/simd/matmul/panel_results.h"
#include "model/kernels/simd/matmul/row_pairs.h"
#include "model/kernels/simd/vector/bf16.h"
#include "model/kernels/simd/vector/vector.h"

#ifndef TP_ISA_NAMESPACE
#error "compile with -DTP_ISA_NAMESPACE=portable, avx2, ..."
#endif

namespace tp::kernels::TP_ISA_NAMESPACE {
namespace {

void f32(const PanelProduct& p) { run_floats<F32Weights>(p); }
void f16(const PanelProduct& p) { run_floats<F16Weights>(p); }
void bf16(const PanelProduct& p) { run_floats<Bf16Weights>(p); }

// Chunks stay in place in the panel.
void int8(const PanelProduct& p) {
  multiply_chunks(
      p,
      Chunks<Int8Block>{
          [](const PanelProduct& /*p*/, const unsigned char* panel, std::size_t begin, std::size_t /*count*/,
             Int8Block* /*room*/) { return reinterpret_cast<const Int8Block*>(panel) + begin; },
          [](const PanelProduct& /*p*/, std::size_t block) { return block * sizeof(Int8Block); },
          sizeof(Int8Block)});
}

#if defined(__AVX512BF16__) || defined(TP_HAS_BF16_MATRICES)
template <class Sums>
struct Bf16PairTile {
  static constexpr std::size_t kTokens = kParts == 1 ? 8 : 4;
  static constexpr std::size_t kSumsPerToken = 1;

  const PanelProduct& p;

  template <std::size_t T, std::size_t N>
  void run(const Pass& pass) const {
    const std::size_t pairs = p.in_features / 2;
    const std::uint32_t* x = p.x_pairs + pass.token * pairs;
    const unsigned char* weights[N];
    for (std::size_t n = 0; n < N; ++n) weights[n] = weights_of(p, pass, n);
    typename Sums::template Results<T, N> results(p, pass);
    results.sum([&](const Leaf& leaf)
                    __attribute__((always_inline)) { run_leaf<T, N>(x, pairs, leaf, weights, results); });
  }

#if defined(TP_HAS_BF16_MATRICES)
  // Two tokens at a time, and two pairs of features.
  template <std::size_t T, std::size_t N>
  [[gnu::always_inline]] void run_leaf(const std::uint32_t* x, std::size_t pairs, const Leaf& leaf,
                                       const unsigned char* (&weights)[N],
                                       typename Sums::template Results<T, N>& results) const {
    constexpr std::size_t kRowPairs = (T + 1) / 2;
    RowPairSums<FloatRegister> sums[N][kRowPairs];
    const auto add = [&](std::size_t n, const WordVector& second, const uint8x16_t(&rows)[kRowPairs])
        __attribute__((always_inline)) {
      const PanelRows panel(load_words(weights[n]), second);
      for (std::size_t i = 0; i < kRowPairs; ++i) sums[n][i].add(panel, rows[i]);
    };
    uint8x16_t rows[kRowPairs];
    std::size_t k = leaf.begin / 2;
    for (; k + 2 <= leaf.end / 2; k += 2) {
      if (k % kLines == 0) {
        for (std::size_t n = 0; n < N; ++n) fetch_lines_for<T>(weights[n], kLines);
      }
      for (std::size_t i = 0; i < kRowPairs; ++i)
        rows[i] = neon_two_rows(x + 2 * i * pairs + k, x + second_of_pair(i, T) * pairs + k);
      for (std::size_t n = 0; n < N; ++n) {
        add(n, load_words(weights[n] + kVectorBytes), rows);
        weights[n] += 2 * kVectorBytes;
      }
    }
    if (k < leaf.end / 2) {
      for (std::size_t i = 0; i < kRowPairs; ++i) {
        const std::uint32_t first[2] = {x[2 * i * pairs + k], 0};
        const std::uint32_t second[2] = {x[second_of_pair(i, T) * pairs + k], 0};
        rows[i] = neon_two_rows(first, second);
      }
      for (std::size_t n = 0; n < N; ++n) {
        add(n, WordVector{}, rows);
        weights[n] += kVectorBytes;
      }
    }
    Vector of_tokens[N][T];
    for (std::size_t n = 0; n < N; ++n) {
      for (std::size_t t = 0; t < T; ++t) of_tokens[n][t] = sums[n][t / 2].of(t % 2 == 1);
    }
    results.take(of_tokens, leaf);
  }
#else
  template <std::size_t T, std::size_t N>
  [[gnu::always_inline]] void run_leaf(const std::uint32_t* x, std::size_t pairs, const Leaf& leaf,
                                       const unsigned char* (&weights)[N],
                                       typename Sums::template Results<T, N>& results) const {
    Vector sums[N][T];
    set_zero(sums);
    for (std::size_t k = leaf.begin / 2; k < leaf.end / 2; ++k) {
      if (k % kLines == 0) {
        for (std::size_t n = 0; n < N; ++n) fetch_lines_for<T>(weights[n], kLines);
      }
      __m512bh w[N];
      for (std::size_t n = 0; n < N; ++n) {
        w[n] = (__m512bh)load_words(weights[n]).part[0];
        weights[n] += kVectorBytes;
      }
      for (std::size_t t = 0; t < T; ++t) {
        const auto both = (__m512bh)_mm512_set1_epi32(static_cast<int>(x[t * pairs + k]));
        for (std::size_t n = 0; n < N; ++n) {
          sums[n][t].part[0] = (FloatRegister)_mm512_dpbf16_ps((__m512)sums[n][t].part[0], w[n], both);
        }
      }
    }
    results.take(sums, leaf);
  }
#endif
};
void bf16_pairs(const PanelProduct& p) {
  if (p.sums != nullptr) return run_panels(Bf16PairTile<LeafSums>{p});
  run_panels(Bf16PairTile<Floats>{p});
}
constexpr auto kBf16Pairs = bf16_pairs;
#else
constexpr void (*kBf16Pairs)(const PanelProduct&) = nullptr;
#endif

void quantize(const float* x, std::size_t size, std::int32_t offset, std::int8_t* bytes, float* scales,
              std::int32_t* corrections, std::size_t tokens_apart) {
  const std::size_t places = size / kGroup * tokens_apart;
  for (std::size_t place = 0; place < places;
       place += tokens_apart, x += kGroup, bytes += tokens_apart * kGroup) {
    Vector magnitudes = {};
    for (std::size_t i = 0; i < kGroup; i += kLanes) magnitudes = larger(magnitude(load(x + i)), magnitudes);
    const float largest = largest_element(magnitudes);
    scales[place] = largest / 127.0F;
    const float inverse = largest == 0.0F ? 0.0F : 127.0F / largest;
    for (std::size_t i = 0; i < kGroup; ++i) {
      // Rounds to nearest by adding 1.5 * 2^23, whose unit in the last place is 1.
      const float shifted = x[i] * inverse + 12582912.0F;
      bytes[i] = static_cast<std::int8_t>(static_cast<std::int32_t>(shifted - 12582912.0F));
    }
    corrections[place] = -offset * sum_of_bytes<kGroup>(bytes);
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
const PackedKernels kPackedKernels = {f32, f16, bf16, kBf16Pairs, int8, quantize, round_pairs};

}  // namespace tp::kernels::TP_ISA_NAMESPACE
