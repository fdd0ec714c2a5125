// Products with weights that are floats in a panel. For packed_kernels.cc and scaled_kernels.cc only:
// everything is local to the translation unit.
#pragma once

#include "model/kernels/simd/matmul/panel_passes.h"
#include "model/kernels/simd/matmul/panel_results.h"

namespace tp::kernels {
namespace {

// Two steps along the input: first() and second() return 16 weights each as float32. kConstants: registers
// with constants for unpacking. kWideTokens: tokens of a pass over a panel if a vector is one register.
struct F32Weights {
  static constexpr std::size_t kConstants = 0;
  static constexpr std::size_t kWideTokens = 12;
  static constexpr std::size_t kBytes = 2 * kVectorBytes;
  static Vector first(const unsigned char* w) { return load(reinterpret_cast<const float*>(w)); }
  static Vector second(const unsigned char* w) { return first(w + kVectorBytes); }
};

struct F16Weights {
  static constexpr std::size_t kConstants = 0;
  static constexpr std::size_t kWideTokens = 8;
  static constexpr std::size_t kBytes = kVectorBytes;
  static Vector first(const unsigned char* w) { return load_f16(w); }
  static Vector second(const unsigned char* w) { return load_f16(w + kVectorBytes / 2); }
};

struct Bf16Weights {
  static constexpr std::size_t kConstants = 1;
  static constexpr std::size_t kWideTokens = 8;
  static constexpr std::size_t kBytes = kVectorBytes;
  static Vector first(const unsigned char* w) { return even_bf16(load_words(w)); }
  static Vector second(const unsigned char* w) { return odd_bf16(load_words(w)); }
};

template <class Weights, class Sums>
struct FloatTile {
  // Constants also need registers.
  static constexpr std::size_t kTokens =
      kParts == 1 ? Weights::kWideTokens : (kSumRegisters - Weights::kConstants) / kParts;
  static constexpr std::size_t kSumsPerToken = 1;

  const PanelProduct& p;

  template <std::size_t T, std::size_t N>
  void run(const Pass& pass) const {
    typename Sums::template Results<T, N> results(p, pass);
    results.sum([&](const Leaf& leaf)
                    __attribute__((always_inline)) { run_leaf<T, N>(pass, leaf, results); });
  }

  template <std::size_t T, std::size_t N>
  [[gnu::always_inline]] void run_leaf(const Pass& pass, const Leaf& leaf,
                                       typename Sums::template Results<T, N>& results) const {
    const std::size_t in_features = leaf.end - leaf.begin;
    const float* x[T];
    for (std::size_t t = 0; t < T; ++t) x[t] = p.x + (pass.token + t) * p.x_stride + leaf.begin;
    const unsigned char* weights[N];
    for (std::size_t n = 0; n < N; ++n) weights[n] = weights_of(p, pass, n) + leaf.index * p.leaf_bytes;
    // One sum per result, along k: neither the tokens of a pass nor the panels of a thread change the
    // result's bits.
    Vector sums[N][T];
    set_zero(sums);
    constexpr std::size_t kFeatures = 2 * kLines * kVectorBytes / Weights::kBytes;
    std::size_t k = 0;
    for (; k + 2 <= in_features; k += 2) {
      if (k % kFeatures == 0) {
        for (std::size_t n = 0; n < N; ++n) fetch_lines_for<T>(weights[n], kLines);
      }
      Vector w[N];
      for (std::size_t n = 0; n < N; ++n) w[n] = Weights::first(weights[n]);
      for (std::size_t t = 0; t < T; ++t) {
        for (std::size_t n = 0; n < N; ++n) multiply_add(w[n], x[t][k], sums[n][t]);
      }
      for (std::size_t n = 0; n < N; ++n) {
        // Reads the weights again here: otherwise a compiler would keep both steps in registers, which sums
        // need.
        if constexpr (kParts > 1) asm("" : "+r"(weights[n]));
        w[n] = Weights::second(weights[n]);
        weights[n] += Weights::kBytes;
      }
      for (std::size_t t = 0; t < T; ++t) {
        for (std::size_t n = 0; n < N; ++n) multiply_add(w[n], x[t][k + 1], sums[n][t]);
      }
    }
    if (k < in_features) {
      // Unrolled, because otherwise compilers keep the sums in memory.
#pragma GCC unroll 4
      for (std::size_t n = 0; n < N; ++n) {
        const Vector w = Weights::first(weights[n]);
#pragma GCC unroll 16
        for (std::size_t t = 0; t < T; ++t) multiply_add(w, x[t][k], sums[n][t]);
      }
    }
    results.take(sums, leaf);
  }
};

template <class Weights>
void run_floats(const PanelProduct& p) {
  if (p.sums != nullptr) return run_panels(FloatTile<Weights, LeafSums>{p});
  run_panels(FloatTile<Weights, Floats>{p});
}

}  // namespace
}  // namespace tp::kernels
