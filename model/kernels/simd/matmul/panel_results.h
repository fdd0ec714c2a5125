// Passes over the panels of packed weights, and the uses of their results. For packed_kernels.cc,
// quant_kernels.cc and scaled_kernels.cc only: everything is local to the translation unit.
#pragma once

#include "model/kernels/simd/matmul/leaf_sum.h"
#include "model/kernels/simd/matmul/packed.h"
#include "model/kernels/simd/vector/vector.h"

namespace tp::kernels {
namespace {

constexpr std::size_t kPanel = 16;
constexpr std::size_t kGroup = 32;
constexpr std::size_t kBlock = 64;
constexpr std::size_t kScaleBytes = 2 * kPanel * 2;

// Registers for sums. The other registers contain weights and activations.
#if defined(__AVX512F__) || defined(TP_NEON)
constexpr std::size_t kSumRegisters = 24;
#else
constexpr std::size_t kSumRegisters = 12;
#endif

// Distance at which weights are fetched before their use. Memory is read faster in two streams than in one,
// but not if the streams alternate with each line. Therefore floats fetch several lines of a panel at a time.
constexpr std::size_t kPrefetchBytes = 4096;
constexpr std::size_t kLines = 8;

inline void fetch_lines(const unsigned char* weights, std::size_t lines) {
  for (std::size_t i = 0; i < lines; ++i) __builtin_prefetch(weights + i * kVectorBytes + kPrefetchBytes);
}

// If several tokens pass over wide vectors, lines are first fetched to the second-level cache, from further
// ahead: the first-level cache waits for few lines at a time, and multiplications would wait with it.
constexpr std::size_t kFarBytes = 16384;
constexpr std::size_t kNearBytes = 2048;
template <std::size_t kTokens>
constexpr bool kFetchesFar = kTokens > 1 && kParts == 1;

inline void fetch_far_lines(const unsigned char* weights, std::size_t lines) {
  for (std::size_t i = 0; i < lines; ++i) __builtin_prefetch(weights + i * kVectorBytes + kFarBytes, 0, 2);
}
inline void fetch_near_lines(const unsigned char* weights, std::size_t lines) {
  for (std::size_t i = 0; i < lines; ++i) __builtin_prefetch(weights + i * kVectorBytes + kNearBytes);
}

template <std::size_t kTokens>
inline void fetch_lines_for(const unsigned char* weights, std::size_t lines) {
  if (!kFetchesFar<kTokens>) return fetch_lines(weights, lines);
  fetch_far_lines(weights, lines);
  fetch_near_lines(weights, lines);
}

// Panels that are multiplied together, at distances of `apart` panels, for tokens from `token` on.
struct Pass {
  std::size_t panel;
  std::size_t apart;
  std::size_t token;
};

[[maybe_unused]] const unsigned char* weights_of(const PanelProduct& p, const Pass& pass, std::size_t n) {
  return p.panels + (pass.panel + n * pass.apart) * p.panel_bytes;
}

// The bytes at a place of a panel. A rank without columns has no bytes and no places.
[[maybe_unused]] const unsigned char* weights_at(const PanelProduct& p, const Pass& pass, std::size_t n,
                                                 std::size_t place) {
  return weights_of(p, pass, n) + (p.in_features == 0 ? 0 : place);
}

// Number of outputs from a panel on. The last panel may be incomplete.
[[gnu::always_inline]] inline std::size_t outputs_of(const PanelProduct& p, const Pass& pass, std::size_t n) {
  return p.out_features - (pass.panel + n * pass.apart) * kPanel;
}
[[gnu::always_inline]] inline std::size_t place_of(const PanelProduct& p, const Pass& pass, std::size_t n,
                                                   std::size_t t) {
  return (pass.token + t) * p.y_stride + (pass.panel + n * pass.apart) * kPanel;
}

// Clears sums one by one, because compilers would clear a whole array in memory.
template <std::size_t T, std::size_t N>
[[gnu::always_inline]] inline void set_zero(Vector (&sums)[N][T]) {
#pragma GCC unroll 4
  for (std::size_t n = 0; n < N; ++n) {
#pragma GCC unroll 16
    for (std::size_t t = 0; t < T; ++t) sums[n][t] = {};
  }
}

// Features with one sum: leaf number `index`.
struct Leaf {
  std::size_t begin;
  std::size_t end;
  std::size_t index;
};

// Writes the results of T tokens for N panels.
struct Floats {
  template <std::size_t T, std::size_t N>
  struct Results {
    const PanelProduct& p;
    const Pass& pass;

    Results(const PanelProduct& product, const Pass& of) : p(product), pass(of) {}

    // Calls run(leaf) once, for all features. run passes its results to `take`.
    template <class Run>
    void sum(const Run& run) {
      run(Leaf{0, p.in_features, 0});
    }
    [[gnu::always_inline]] void take(const Vector (&sums)[N][T], const Leaf& /*leaf*/) const {
      for (std::size_t n = 0; n < N; ++n) {
        for (std::size_t t = 0; t < T; ++t) write(n, t, sums[n][t]);
      }
    }

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

// Adds the results of leaves exactly, and writes the sums.
struct LeafSums {
  // Leaves whose results are added at a time. Reloading the sums for each leaf would take longer.
  static constexpr std::size_t kLeaves = 4;

  template <std::size_t T, std::size_t N>
  struct Results {
    const PanelProduct& p;
    const Pass& pass;
    // Rows of p.sums are often a multiple of 4 KiB apart, so that loads from a row would wait for stores to
    // another.
    alignas(64) double sums[N][T][kPanel];
    Vector results[kLeaves][N][T];  // results of the current leaves

    Results(const PanelProduct& product, const Pass& of) : p(product), pass(of) {}

    // Calls run(leaf) for each leaf. Without features, there is one empty leaf.
    template <class Run>
    void sum(const Run& run) {
      Leaf next{0, 0, 0};
      do {
        const bool are_first = next.index == 0;
        add(run_some(run, next), are_first);
      } while (next.begin < p.in_features);
      finish();
    }
    [[gnu::always_inline]] void take(const Vector (&of_leaf)[N][T], const Leaf& leaf) {
      // Unrolled, one register at a time: otherwise compilers keep the results in memory.
#pragma GCC unroll 4
      for (std::size_t n = 0; n < N; ++n) {
#pragma GCC unroll 16
        for (std::size_t t = 0; t < T; ++t) {
#pragma GCC unroll 4
          for (std::size_t i = 0; i < kParts; ++i)
            results[leaf.index % kLeaves][n][t].part[i] = of_leaf[n][t].part[i];
        }
      }
    }

    // Adds the results of `count` leaves.
    void add(std::size_t count, bool are_first) {
      for (std::size_t n = 0; n < N; ++n) {
        for (std::size_t t = 0; t < T; ++t) {
          const auto* elements = reinterpret_cast<const float*>(&results[0][n][t]);
          add_leaves(elements, N * T * kPanel, count, are_first, sums[n][t]);
        }
      }
    }

    void finish() const {
      for (std::size_t n = 0; n < N; ++n) {
        const std::size_t outputs = outputs_of(p, pass, n);
        for (std::size_t t = 0; t < T; ++t)
          __builtin_memcpy(p.sums + place_of(p, pass, n, t), sums[n][t],
                           (outputs < kPanel ? outputs : kPanel) * sizeof(double));
      }
    }

   private:
    // Runs the next leaves, and advances `next`; returns their number. A separate function, in which
    // compilers keep all results in registers.
    template <class Run>
    [[gnu::noinline]] std::size_t run_some(const Run& run, Leaf& next) {
      Leaf leaf = next;
      do {
        leaf.end = p.in_features - leaf.begin < p.leaf ? p.in_features : leaf.begin + p.leaf;
        run(leaf);
        leaf = {leaf.end, 0, leaf.index + 1};
      } while (leaf.index % kLeaves != 0 && leaf.begin < p.in_features);
      const std::size_t count = leaf.index - next.index;
      next = leaf;
      return count;
    }
  };
};

}  // namespace
}  // namespace tp::kernels
