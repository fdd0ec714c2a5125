// Passes over the panels of packed weights, and what becomes of their results. For packed_kernels.cc only:
// everything is local to the translation unit.
#pragma once

#include "model/kernels/simd/leaf_sum.h"
#include "model/kernels/simd/packed.h"
#include "model/kernels/simd/vector.h"

namespace tp::kernels {
namespace {

constexpr std::size_t kPanel = 16;
constexpr std::size_t kGroup = 32;
constexpr std::size_t kBlock = 64;
constexpr std::size_t kScaleBytes = 2 * kPanel * 2;

// Registers that sums may take: the others hold weights and activations.
#if defined(__AVX512F__)
constexpr std::size_t kSumRegisters = 24;
#else
constexpr std::size_t kSumRegisters = 12;
#endif

// Weights are fetched this far ahead of their use. Memory is read faster in two streams than in one, but not
// if they alternate with every line, so that floats fetch several lines of a panel at a time.
constexpr std::size_t kPrefetchBytes = 1024;
constexpr std::size_t kLines = 8;

inline void fetch_lines(const unsigned char* weights, std::size_t lines) {
  for (std::size_t i = 0; i < lines; ++i) __builtin_prefetch(weights + i * kVectorBytes + kPrefetchBytes);
}

// Panels that are multiplied side by side, `apart` panels from one to the next, for tokens from `token` on.
struct Pass {
  std::size_t panel;
  std::size_t apart;
  std::size_t token;
};

const unsigned char* weights_of(const PanelProduct& p, const Pass& pass, std::size_t n) {
  return p.panels + (pass.panel + n * pass.apart) * p.panel_bytes;
}

// Outputs from a panel on: the last panel may be cut short.
[[gnu::always_inline]] inline std::size_t outputs_of(const PanelProduct& p, const Pass& pass, std::size_t n) {
  return p.out_features - (pass.panel + n * pass.apart) * kPanel;
}
[[gnu::always_inline]] inline std::size_t place_of(const PanelProduct& p, const Pass& pass, std::size_t n,
                                                   std::size_t t) {
  return (pass.token + t) * p.y_stride + (pass.panel + n * pass.apart) * kPanel;
}

// What becomes of the results of T tokens for N panels: they are written.
struct Floats {
  // Calls body(begin, end) for the features that are summed as one.
  template <class Body>
  [[gnu::always_inline]] static void for_leaves(const PanelProduct& p, const Body& body) {
    body(0, p.in_features);
  }
  template <class Body>
  [[gnu::always_inline]] static void run_leaf(const Body& body) {
    body();
  }

  template <std::size_t T, std::size_t N>
  struct Results {
    const PanelProduct& p;
    const Pass& pass;

    Results(const PanelProduct& product, const Pass& of) : p(product), pass(of) {}

    [[gnu::always_inline]] void take(const Vector (&sums)[N][T]) const {
      for (std::size_t n = 0; n < N; ++n) {
        for (std::size_t t = 0; t < T; ++t) write(n, t, sums[n][t]);
      }
    }
    void end_leaf(bool /*is_first*/) const {}
    void finish() const {}

   private:
    [[gnu::always_inline]] void write(std::size_t n, std::size_t t, const Vector& sum) const {
      float* y = p.y + place_of(p, pass, n, t);
      if (outputs_of(p, pass, n) >= kPanel) return store(sum, y);
      float elements[kPanel];
      store(sum, elements);
      for (std::size_t i = 0; i < outputs_of(p, pass, n); ++i) y[i] = elements[i];
    }
  };
};

// Or they are those of leaves, and their exact sums are written.
struct LeafSums {
  // Without features, there is one empty leaf.
  template <class Body>
  [[gnu::always_inline]] static void for_leaves(const PanelProduct& p, const Body& body) {
    std::size_t begin = 0;
    do {
      const std::size_t end = p.in_features - begin < p.leaf ? p.in_features : begin + p.leaf;
      body(begin, end);
      begin = end;
    } while (begin < p.in_features);
  }

  // A function of its own, in which compilers keep all sums in registers.
  template <class Body>
  [[gnu::noinline]] static void run_leaf(const Body& body) {
    body();
  }

  template <std::size_t T, std::size_t N>
  struct Results {
    const PanelProduct& p;
    const Pass& pass;
    // Rows of p.sums are often a multiple of 4 KiB apart: loads from one would wait for stores to another.
    alignas(64) double leaves[N][T][kPanel];
    alignas(64) float elements[N][T][kPanel];  // of the leaf at hand

    Results(const PanelProduct& product, const Pass& of) : p(product), pass(of) {}

    [[gnu::always_inline]] void take(const Vector (&sums)[N][T]) {
      for (std::size_t n = 0; n < N; ++n) {
        for (std::size_t t = 0; t < T; ++t) store(sums[n][t], elements[n][t]);
      }
    }
    void end_leaf(bool is_first) {
      for (std::size_t n = 0; n < N; ++n) {
        for (std::size_t t = 0; t < T; ++t) add_leaf(elements[n][t], kPanel, is_first, leaves[n][t]);
      }
    }

    void finish() const {
      for (std::size_t n = 0; n < N; ++n) {
        const std::size_t outputs = outputs_of(p, pass, n);
        for (std::size_t t = 0; t < T; ++t)
          __builtin_memcpy(p.sums + place_of(p, pass, n, t), leaves[n][t],
                           (outputs < kPanel ? outputs : kPanel) * sizeof(double));
      }
    }
  };
};

// Sums the leaves of a pass: leaf(begin, end, results) passes its sums to results.take.
template <class Sums, std::size_t T, std::size_t N, class Leaf>
[[gnu::always_inline]] inline void run_leaves(const PanelProduct& p, const Pass& pass, const Leaf& leaf) {
  typename Sums::template Results<T, N> results(p, pass);
  Sums::for_leaves(p, [&](std::size_t begin, std::size_t end) {
    Sums::run_leaf([&] { leaf(begin, end, results); });
    results.end_leaf(begin == 0);
  });
  results.finish();
}

}  // namespace
}  // namespace tp::kernels
