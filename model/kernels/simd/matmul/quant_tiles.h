// Products with the quantized types of GGUF files. For quant_kernels.cc only: everything is local to the
// translation unit.
#pragma once

#include "model/kernels/simd/matmul/byte_blocks.h"
#include "model/kernels/simd/matmul/panel_passes.h"
#include "model/kernels/simd/matmul/quant_blocks.h"

namespace tp::kernels {
namespace {

// Multiplies blocks in place, in the panel, for few tokens. Processes two groups of 32 at a time, because
// they share the bytes of their low bits.
template <const QuantFormat& F>
struct QuantTile {
  // Code for more tokens would only cost compile time.
  static constexpr std::size_t kTokens = kParts == 1 ? 4 : 2;
  static constexpr std::size_t kSumsPerToken = 1 + 2 * kVectorsOfSum;

  const PanelProduct& p;

  template <std::size_t T, std::size_t N>
  void run(const Pass& pass) const {
    const unsigned char* weights[N];
    for (std::size_t n = 0; n < N; ++n) weights[n] = weights_at(p, pass, n, F.place(p.first_block, 0));
    Vector results[N][T];
    set_zero(results);
    for (std::size_t block = 0; block < p.in_features / kBlock; ++block) {
      for (std::size_t n = 0; n < N; ++n) fetch_lines_for<T>(weights[n], F.block_bytes() / kVectorBytes + 1);
      run_block<T, N>(weights, pass.token, block, results);
      for (std::size_t n = 0; n < N; ++n) weights[n] += F.step(p.first_block, block);
    }
    Floats::Results<T, N>(p, pass).take(results, {});
  }

 private:
  static constexpr std::size_t kTogether = F.group == 32 ? 2 : 1;
  static constexpr std::size_t kGroupQuads = F.group / 4;
  // Quads that instructions can add up; see QuadSums.
  static constexpr std::size_t kMax = kQuadsOfSum<kLargestElement<F>>;
  static constexpr std::size_t kStep = kMax < kGroupQuads ? kMax : kGroupQuads;

  template <std::size_t T, std::size_t N>
  [[gnu::always_inline]] void run_block(const unsigned char* const (&weights)[N], std::size_t token,
                                        std::size_t block, Vector (&results)[N][T]) const {
    const std::size_t column = block * kBlock;
    const GroupTerms<F.group, F.has_offsets> terms{p, token};
    for_known<0, F.groups() / kTogether>([&](auto first) __attribute__((always_inline)) {
      constexpr std::size_t kFirst = decltype(first)::value * kTogether;
      IntVector sums[N][kTogether][T];
      for (std::size_t g = 0; g < kTogether; ++g) {
        for (std::size_t t = 0; t < T; ++t) {
          for (std::size_t n = 0; n < N; ++n) sums[n][g][t] = terms.begin(t, column / F.group + kFirst + g);
        }
      }
      for_known<0, kGroupQuads / kStep>([&](auto step) __attribute__((always_inline)) {
        add_quads<T, N, kFirst, decltype(step)::value>(weights, token, column, sums);
      });
      const std::size_t from_super =
          F.blocks_after_super(p.first_block, block) * F.block_bytes() + F.super_bytes();
      for (std::size_t n = 0; n < N; ++n) {
        const BlockScales<F> scales(weights[n], weights[n] - from_super);
        for (std::size_t g = 0; g < kTogether; ++g) {
          terms.add(sums[n][g], column / F.group + kFirst + g, scales.scales[kFirst + g],
                    scales.offsets[kFirst + g], results[n]);
        }
      }
    });
  }

  // Adds the products of kStep quads of each group from kFirst on.
  template <std::size_t T, std::size_t N, std::size_t kFirst, std::size_t kStepIndex>
  [[gnu::always_inline]] void add_quads(const unsigned char* const (&weights)[N], std::size_t token,
                                        std::size_t column, IntVector (&sums)[N][kTogether][T]) const {
    const GroupTerms<F.group, F.has_offsets> terms{p, token};
    QuadSums quads[N][kTogether][T];
    for (std::size_t n = 0; n < N; ++n) {
      for (std::size_t g = 0; g < kTogether; ++g) {
        for (std::size_t t = 0; t < T; ++t) quads[n][g][t] = QuadSums(sums[n][g][t]);
      }
    }
    for_known<0, kStep * kTogether>([&](auto i) __attribute__((always_inline)) {
      constexpr std::size_t kOfGroup = decltype(i)::value % kTogether;
      constexpr std::size_t q =
          (kFirst + kOfGroup) * kGroupQuads + kStepIndex * kStep + decltype(i)::value / kTogether;
      const std::int8_t* x = terms.bytes(column + 4 * q) + 4 * q % kGroup;
      WordVector elements[N];
      for (std::size_t n = 0; n < N; ++n) elements[n] = elements_of<F, q>(weights[n]);
      for (std::size_t t = 0; t < T; ++t) {
        for (std::size_t n = 0; n < N; ++n) quads[n][kOfGroup][t].add(elements[n], x + t * kGroup);
      }
    });
    for (std::size_t n = 0; n < N; ++n) {
      for (std::size_t g = 0; g < kTogether; ++g) {
        for (std::size_t t = 0; t < T; ++t) sums[n][g][t] = quads[n][g][t].total(sums[n][g][t]);
      }
    }
  }
};

}  // namespace
}  // namespace tp::kernels
