// Products with blocks of integers of one byte each. For packed_kernels.cc and quant_kernels.cc only:
// everything is local to the translation unit.
//
// A group's integers are multiplied and summed exactly. Each group adds sum * (scale * x_scale) to the
// result, then offset * x_sum if there are offsets. All kinds of blocks use this order, so that results have
// the same bits.
#pragma once

#include "model/kernels/simd/matmul/panel_results.h"
#include "model/kernels/simd/matmul/quad_sums.h"
#include "model/kernels/simd/matmul/row_pairs.h"
#include "model/kernels/simd/vector/vector.h"

#include <type_traits>

namespace tp::kernels {
namespace {

// Adds the terms of a group to the results of tokens from `token` on.
template <std::size_t kGroupSize, bool kHasOffsets>
struct GroupTerms {
  const PanelProduct& p;
  std::size_t token;

  std::size_t place(std::size_t t, std::size_t group) const { return group * p.tokens_apart + token + t; }
  // The bytes from `column` on, in rows of kGroup.
  const std::int8_t* bytes(std::size_t column) const {
    return p.x_bytes + (column / kGroup * p.tokens_apart + token) * kGroup;
  }
  // Initial value of the integer sum.
  [[gnu::always_inline]] IntVector begin(std::size_t t, std::size_t group) const {
    return broadcast(kHasOffsets ? 0 : p.x_corrections[place(t, group)]);
  }
  template <std::size_t T>
  [[gnu::always_inline]] void add(const IntVector (&sums)[T], std::size_t group, const Vector& scale,
                                  const Vector& offset, Vector (&results)[T]) const {
    for (std::size_t t = 0; t < T; ++t) {
      add_scaled(sums[t], scale, p.x_scales[place(t, group * kGroupSize / kGroup)], results[t]);
      if constexpr (kHasOffsets) multiply_add(offset, p.x_sums[place(t, group)], results[t]);
    }
  }
};

// A block of int8, as stored in a panel. `kIsBiased`: 128 is added to elements. kQuadsAtOnce: capacity of
// QuadSums.
struct Int8Block {
  static constexpr std::size_t kGroupSize = kGroup;
  static constexpr bool kHasOffsets = false;
  static constexpr bool kIsBiased = true;
  static constexpr bool kIsUnpacked = false;
  static constexpr std::size_t kQuadsAtOnce = 8;
  static constexpr std::size_t kGroups = kBlock / kGroupSize;

  unsigned char quads[kBlock / 4][kVectorBytes];
  unsigned char scales[kGroups][2 * kLanes];

  Vector scale(std::size_t group) const { return load_f16(scales[group]); }
};

#if defined(TP_HAS_BYTE_MATRICES)
// The integer sums of group `g` of N blocks with T tokens, whose bytes begin at `x`. first(t) is the sum to
// begin with.
template <class Block, std::size_t T, std::size_t N, class First>
[[gnu::always_inline]] inline void sum_row_pairs(const Block* const (&blocks)[N], std::size_t g,
                                                 const std::int8_t* x, const First& first,
                                                 IntVector (&sums)[N][T]) {
  constexpr std::size_t kGroupQuads = Block::kGroupSize / 4;
  constexpr std::size_t kPairs = (T + 1) / 2;
  RowPairSums<IntRegister> pairs[N][kPairs];
#pragma GCC unroll 4
  for (std::size_t q = g * kGroupQuads; q < (g + 1) * kGroupQuads; q += 2, x += 8) {
    uint8x16_t rows[kPairs];
    for (std::size_t i = 0; i < kPairs; ++i)
      rows[i] = neon_two_rows(x + 2 * i * kGroup, x + second_of_pair(i, T) * kGroup);
    for (std::size_t n = 0; n < N; ++n) {
      WordVector w[2] = {load_words(blocks[n]->quads[q]), load_words(blocks[n]->quads[q + 1])};
      if constexpr (Block::kIsBiased) {
        for (WordVector& word : w) {
          for (WordRegister& part : word.part) part ^= 0x80808080U;
        }
      }
      const PanelRows weights(w[0], w[1]);
      for (std::size_t i = 0; i < kPairs; ++i) pairs[n][i].add(weights, rows[i]);
    }
  }
  for (std::size_t n = 0; n < N; ++n) {
    for (std::size_t t = 0; t < T; ++t) {
      sums[n][t] = first(t);
      sums[n][t] += pairs[n][t / 2].of(t % 2 == 1);
    }
  }
}
#endif

// Adds the products of T tokens, from `token` on, with blocks of N panels whose first column is `column` to
// the results. Calls end_group(group) after each group of activations.
template <class Block, std::size_t T, std::size_t N, class End>
[[gnu::always_inline]] inline void multiply_blocks(const PanelProduct& p, const Block* const (&blocks)[N],
                                                   std::size_t token, std::size_t column,
                                                   Vector (&results)[N][T], End& end_group) {
  constexpr std::size_t kGroupSize = Block::kGroupSize;
  constexpr std::size_t kGroupQuads = kGroupSize / 4;
  constexpr std::size_t kStep = Block::kQuadsAtOnce < kGroupQuads ? Block::kQuadsAtOnce : kGroupQuads;
  using Quads = std::conditional_t<Block::kIsBiased, BiasedQuadSums, QuadSums>;
  const GroupTerms<kGroupSize, Block::kHasOffsets> terms{p, token};
  for (std::size_t g = 0; g < Block::kGroups; ++g) {
    const std::size_t group = column / kGroupSize + g;
    const std::int8_t* x = terms.bytes(group * kGroupSize) + g * kGroupSize % kGroup;
    IntVector sums[N][T];
#if defined(TP_HAS_BYTE_MATRICES)
    // For one token, half of each product would be lost.
    constexpr bool kHasRowPairs = T > 1;
    if constexpr (kHasRowPairs) {
      const auto first = [&](std::size_t t) {
        return Block::kIsBiased && kBiasedDotIsExact ? IntVector{} : terms.begin(t, group);
      };
      sum_row_pairs(blocks, g, x, first, sums);
    }
#else
    constexpr bool kHasRowPairs = false;
#endif
#pragma GCC unroll 4
    for (std::size_t begin = 0; begin < kGroupQuads && !kHasRowPairs; begin += kStep) {
      const auto so_far = [&](std::size_t n, std::size_t t) __attribute__((always_inline)) {
        if (begin > 0) return sums[n][t];
        return Block::kIsBiased && kBiasedDotIsExact ? IntVector{} : terms.begin(t, group);
      };
      Quads quads[N][T];
      for (std::size_t n = 0; n < N; ++n) {
        for (std::size_t t = 0; t < T; ++t) quads[n][t] = Quads(so_far(n, t));
      }
#pragma GCC unroll 8
      for (std::size_t q = 0; q < kStep; ++q, x += 4) {
        WordVector w[N];
        for (std::size_t n = 0; n < N; ++n) w[n] = load_words(blocks[n]->quads[g * kGroupQuads + begin + q]);
        for (std::size_t t = 0; t < T; ++t) {
          for (std::size_t n = 0; n < N; ++n) {
            quads[n][t].add(w[n], x + t * kGroup);
            if constexpr (kStep > 2) quads[n][t].pin();
          }
        }
      }
      for (std::size_t n = 0; n < N; ++n) {
        for (std::size_t t = 0; t < T; ++t) sums[n][t] = quads[n][t].total(so_far(n, t));
      }
    }
    for (std::size_t n = 0; n < N; ++n) {
      Vector offset = {};
      if constexpr (Block::kHasOffsets) offset = blocks[n]->offset(g);
      terms.add(sums[n], group, blocks[n]->scale(g), offset, results[n]);
    }
    if ((group + 1) * kGroupSize % kGroup == 0) end_group(group * kGroupSize / kGroup);
  }
}

}  // namespace
}  // namespace tp::kernels
