// Products with the quantized types of GGUF files. For quant_kernels.cc only: everything is local to the
// translation unit.
//
// A group's integers are multiplied and summed exactly. Every group adds sum * (scale * x_scale) to the
// result, then offset * x_sum. Both kinds of blocks do so in the same order: results have the same bits.
#pragma once

#include "model/kernels/simd/integer_tiles.h"
#include "model/kernels/simd/quad_sums.h"
#include "model/kernels/simd/quant_blocks.h"

namespace tp::kernels {
namespace {

// What T tokens from `token` on have from a group: added to their results.
template <std::size_t kGroupSize, bool kHasOffsets>
struct GroupTerms {
  const PanelProduct& p;
  std::size_t token;

  std::size_t place(std::size_t t, std::size_t group) const {
    return (token + t) * (p.in_features / kGroupSize) + group;
  }
  // Where its integer sum begins.
  [[gnu::always_inline]] IntVector begin(std::size_t t, std::size_t group) const {
    return broadcast(kHasOffsets ? 0 : p.x_corrections[place(t, group)]);
  }
  template <std::size_t T>
  [[gnu::always_inline]] void add(const IntVector (&sums)[T], std::size_t group, const Vector& scale,
                                  const Vector& offset, Vector (&results)[T]) const {
    for (std::size_t t = 0; t < T; ++t) {
      const std::size_t x_group = (token + t) * (p.in_features / kGroup) + group * kGroupSize / kGroup;
      add_scaled(sums[t], scale, p.x_scales[x_group], results[t]);
      if constexpr (kHasOffsets) multiply_add(offset, p.x_sums[place(t, group)], results[t]);
    }
  }
};

// Blocks as they are in the panel, for few tokens. Groups of 32 are taken two at a time, because they share
// the bytes of four bits each.
template <const QuantFormat& F>
struct QuantBlock {
  static constexpr std::size_t kSumsPerToken = 3;

  static std::size_t place(const PanelProduct& p, std::size_t block) { return F.place(p.first_block, block); }
  static std::size_t step(const PanelProduct& p, std::size_t block) { return F.step(p.first_block, block); }

  template <std::size_t T, class End>
  [[gnu::always_inline]] static void run(const PanelProduct& p, const unsigned char* weights,
                                         std::size_t token, std::size_t column, Vector (&results)[T],
                                         const End& /*end_group*/) {
    constexpr std::size_t kTogether = F.group == 32 ? 2 : 1;
    constexpr std::size_t kGroupQuads = F.group / 4;
    constexpr std::size_t kMost = kQuadsOfSum<kLargestElement<F>>;
    constexpr std::size_t kStep = kMost < kGroupQuads ? kMost : kGroupQuads;
    const std::size_t block = column / kBlock;
    const std::int8_t* x = p.x_bytes + token * p.in_features + column;
    const GroupTerms<F.group, F.has_offsets> terms{p, token};
    fetch_lines(weights, F.block_bytes() / kVectorBytes + 1);
    for_known<0, F.groups() / kTogether>([&](auto first) __attribute__((always_inline)) {
      constexpr std::size_t kFirst = decltype(first)::value;
      IntVector sums[kTogether][T];
      for (std::size_t g = 0; g < kTogether; ++g) {
        for (std::size_t t = 0; t < T; ++t) sums[g][t] = terms.begin(t, column / F.group + kFirst + g);
      }
      for_known<0, kGroupQuads / kStep>([&](auto step) __attribute__((always_inline)) {
        QuadSums quads[kTogether][T];
        for (std::size_t g = 0; g < kTogether; ++g) {
          for (std::size_t t = 0; t < T; ++t) quads[g][t] = QuadSums(sums[g][t]);
        }
        for_known<0, kStep * kTogether>([&](auto i) __attribute__((always_inline)) {
          constexpr std::size_t kOfGroup = decltype(i)::value % kTogether;
          constexpr std::size_t q = (kFirst + kOfGroup) * kGroupQuads + decltype(step)::value * kStep +
                                    decltype(i)::value / kTogether;
          const WordVector elements = elements_of<F, q>(weights);
          for (std::size_t t = 0; t < T; ++t) quads[kOfGroup][t].add(elements, x + t * p.in_features + 4 * q);
        });
        for (std::size_t g = 0; g < kTogether; ++g) {
          for (std::size_t t = 0; t < T; ++t) sums[g][t] = quads[g][t].total(sums[g][t]);
        }
      });
      const unsigned char* super =
          weights - F.blocks_after_super(p.first_block, block) * F.block_bytes() - F.super_bytes();
      const BlockScales<F> scales(weights, super);
      for (std::size_t g = 0; g < kTogether; ++g) {
        terms.add(sums[g], column / F.group + kFirst + g, scales.scales[kFirst + g],
                  scales.offsets[kFirst + g], results);
      }
    });
  }
};

// Few tokens at a time: code for more would only take time to compile.
constexpr std::size_t kFewTokens = kParts == 1 ? 4 : 2;
template <const QuantFormat& F>
struct QuantTile : IntegerTile<QuantBlock<F>, Floats> {
  static constexpr std::size_t kTokens = kFewTokens;
};

// Unpacked ones, for many tokens. `kIsBiased`: elements are above 63, stored with 128 added.
template <std::size_t kGroupSize, bool kHasOffsets, bool kIsBiased>
struct UnpackedQuants : EqualBlocks<sizeof(UnpackedBlock<kGroupSize, kHasOffsets>)> {
  static constexpr std::size_t kSumsPerToken = 2;

  template <std::size_t T, class End>
  [[gnu::always_inline]] static void run(const PanelProduct& p, const unsigned char* weights,
                                         std::size_t token, std::size_t column, Vector (&results)[T],
                                         const End& end_group) {
    using Block = UnpackedBlock<kGroupSize, kHasOffsets>;
    const auto& block = *reinterpret_cast<const Block*>(weights);
    const std::int8_t* x = p.x_bytes + token * p.in_features + column;
    const GroupTerms<kGroupSize, kHasOffsets> terms{p, token};
    const unsigned char* quads = block.quads[0];
    for (std::size_t g = 0; g < Block::kGroups; ++g) {
      const std::size_t group = column / kGroupSize + g;
      IntVector sums[T];
      for (std::size_t t = 0; t < T; ++t) {
        sums[t] = kIsBiased && kBiasedDotIsExact ? IntVector{} : terms.begin(t, group);
      }
      for (std::size_t i = 0; i < kGroupSize; i += 8, quads += 2 * kVectorBytes, x += 8) {
        const WordVector first = load_words(quads);
        const WordVector second = load_words(quads + kVectorBytes);
        for (std::size_t t = 0; t < T; ++t) {
          const std::int8_t* eight = x + t * p.in_features;
          if constexpr (kIsBiased) {
            dot_biased_bytes(first, eight, sums[t]);
            dot_biased_bytes(second, eight + 4, sums[t]);
          } else {
            QuadSums both(sums[t]);
            both.add(first, eight);
            both.add(second, eight + 4);
            sums[t] = both.total(sums[t]);
          }
        }
      }
      Vector offset = {};
      if constexpr (kHasOffsets) offset = load(block.offset(g));
      terms.add(sums, group, load(block.scale(g)), offset, results);
      if ((group + 1) * kGroupSize % kGroup == 0) end_group(group * kGroupSize / kGroup);
    }
  }
};

}  // namespace
}  // namespace tp::kernels
