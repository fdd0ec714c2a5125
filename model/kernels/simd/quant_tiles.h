// Products with the quantized types of GGUF files. For quant_kernels.cc only: everything is local to the
// translation unit.
//
// A group's integers are multiplied and summed exactly; so are, times their factors, the two groups of 16
// that share a scale of activations. Then every 32 columns add sum * (scale * x_scale), and every group
// offset * x_sum. Both tiles do so in the same order: their results have the same bits.
#pragma once

#include "model/kernels/simd/integer_tiles.h"
#include "model/kernels/simd/quant_blocks.h"

namespace tp::kernels {
namespace {

// Sums of products of bytes as long as they fit into what the instructions add up: 16 bits with AVX2, and
// hence kQuads products of elements up to kLargest with bytes up to 127.
#if defined(__AVX2__) && !defined(__AVX512VNNI__)
struct QuadSums {
  using Register __attribute__((vector_size(kRegisterBytes))) = std::int16_t;
  Register part[kParts] = {};

  void add(const WordVector& w, const std::int8_t* x) {
    const __m256i x4 = _mm256_set1_epi32(four_bytes(x));
    for (std::size_t i = 0; i < kParts; ++i)
      part[i] += (Register)_mm256_maddubs_epi16((__m256i)w.part[i], x4);
  }
  void add_to(IntVector& sum) const {
    for (std::size_t i = 0; i < kParts; ++i)
      sum.part[i] += (IntRegister)_mm256_madd_epi16((__m256i)part[i], _mm256_set1_epi16(1));
  }
};
template <int kLargest>
constexpr std::size_t kQuadsOfSum = 32767 / (2 * 127 * kLargest) >= 8   ? 8
                                    : 32767 / (2 * 127 * kLargest) >= 4 ? 4
                                                                        : 2;
#else
struct QuadSums {
  IntVector sum = {};

  void add(const WordVector& w, const std::int8_t* x) { dot_bytes(w, x, sum); }
  void add_to(IntVector& all) const { all += sum; }
};
template <int kLargest>
constexpr std::size_t kQuadsOfSum = 8;
#endif

// Blocks as they are in the panel, for few tokens.
template <const QuantFormat& F>
struct QuantBlock {
  static constexpr std::size_t kBytes = F.block_bytes();
  static constexpr std::size_t kSumsPerToken = 3;
  static constexpr std::size_t kGroupQuads = F.group / 4;
  static constexpr std::size_t kLines = kBytes / kVectorBytes + 1;

  static std::size_t place(const PanelProduct& p, std::size_t block) { return F.place(p.first_block, block); }
  static std::size_t step(const PanelProduct& p, std::size_t block) { return F.step(p.first_block, block); }

  template <std::size_t T, class End>
  [[gnu::always_inline]] static void run(const PanelProduct& p, const unsigned char* weights,
                                         std::size_t token, std::size_t column, Vector (&results)[T],
                                         const End& end_group) {
    const std::size_t block = column / kBlock;
    const std::size_t groups = p.in_features / F.group;
    const std::size_t first_group = block * F.groups();
    const std::int8_t* x = p.x_bytes + token * p.in_features + column;
    const unsigned char* super =
        weights - F.blocks_after_super(p.first_block, block) * kBytes - F.super_bytes();
    fetch_lines(weights, kLines);
    IntVector sums[2][T] = {};
    const auto add_groups = [&](auto half) __attribute__((always_inline)) {
      constexpr std::size_t kHalf = decltype(half)::value;
      IntVector dots[2][T];
      for (std::size_t t = 0; t < T; ++t) {
        for (std::size_t h = 0; h < 2; ++h) {
          const std::size_t group = (token + t) * groups + first_group + h * F.groups() / 2 + kHalf;
          dots[h][t] = broadcast(F.has_offsets ? 0 : p.x_corrections[group]);
        }
      }
      constexpr std::size_t kStep =
          kQuadsOfSum<kLargestElement<F>> < kGroupQuads ? kQuadsOfSum<kLargestElement<F>> : kGroupQuads;
      for_known<0, kGroupQuads / kStep>([&](auto step) __attribute__((always_inline)) {
        QuadSums quads[2][T];
        for_known<0, kStep>([&](auto i) __attribute__((always_inline)) {
          constexpr std::size_t q = kHalf * kGroupQuads + decltype(step)::value * kStep + decltype(i)::value;
          const WordVector low = elements_of<F, q>(weights);
          const WordVector high = elements_of<F, q + kQuads / 2>(weights);
          for (std::size_t t = 0; t < T; ++t) {
            quads[0][t].add(low, x + t * p.in_features + 4 * q);
            quads[1][t].add(high, x + t * p.in_features + 4 * (q + kQuads / 2));
          }
        });
        for (std::size_t t = 0; t < T; ++t) {
          quads[0][t].add_to(dots[0][t]);
          quads[1][t].add_to(dots[1][t]);
        }
      });
      if constexpr (F.group == 32) {
        for (std::size_t t = 0; t < T; ++t) {
          sums[0][t] = dots[0][t];
          sums[1][t] = dots[1][t];
        }
      } else {
        const BlockScales<F> scales(weights, super);
        for (std::size_t t = 0; t < T; ++t) {
          for (std::size_t h = 0; h < 2; ++h) {
            for (std::size_t i = 0; i < kParts; ++i)
              sums[h][t].part[i] += dots[h][t].part[i] * scales.factors[2 * h + kHalf].part[i];
          }
        }
      }
    };
    for_known<0, 32 / F.group>(add_groups);
    const BlockScales<F> scales(weights, super);
    for (std::size_t h = 0; h < 2; ++h) {
      const std::size_t x_group = column / kGroup + h;
      for (std::size_t t = 0; t < T; ++t) {
        add_scaled(sums[h][t], scales.scales[h], p.x_scales[(token + t) * (p.in_features / kGroup) + x_group],
                   results[t]);
        if constexpr (F.has_offsets) {
          for (std::size_t g = h * F.groups() / 2; g < (h + 1) * F.groups() / 2; ++g)
            multiply_add(scales.offsets[g], p.x_sums[(token + t) * groups + first_group + g], results[t]);
        }
      }
      end_group(x_group);
    }
  }
};

// Unpacked ones, for many tokens. `kIsBiased`: elements are above 63, stored with 128 added.
template <std::size_t kGroupSize, bool kHasOffsets, bool kIsBiased>
struct UnpackedQuants : EqualBlocks<sizeof(UnpackedBlock<kGroupSize, kHasOffsets>)> {
  static constexpr std::size_t kSumsPerToken = 2;

  template <std::size_t T, class End>
  [[gnu::always_inline]] static void run(const PanelProduct& p, const unsigned char* weights,
                                         std::size_t token, std::size_t column, Vector (&results)[T],
                                         const End& end_group) {
    constexpr std::size_t kGroupQuads = kGroupSize / 4;
    constexpr std::size_t kHalves = 32 / kGroupSize;  // groups of 32 columns
    const auto& block = *reinterpret_cast<const UnpackedBlock<kGroupSize, kHasOffsets>*>(weights);
    const std::size_t groups = p.in_features / kGroupSize;
    for (std::size_t h = 0; h < 2; ++h) {
      const std::size_t x_group = column / kGroup + h;
      const std::int8_t* x = p.x_bytes + token * p.in_features + x_group * kGroup;
      const unsigned char* quads = block.quads[h * kQuads / 2];
      const std::size_t first_group = token * groups + x_group * kHalves;
      IntVector sums[T] = {};
      for (std::size_t g = 0; g < kHalves; ++g) {
        IntVector dots[T];
        for (std::size_t t = 0; t < T; ++t) {
          const bool is_corrected = kHasOffsets || (kIsBiased && kBiasedDotIsExact);
          dots[t] = broadcast(is_corrected ? 0 : p.x_corrections[first_group + t * groups + g]);
        }
        for (std::size_t q = 0; q < kGroupQuads; q += 2, quads += 2 * kVectorBytes, x += 8) {
          const WordVector first = load_words(quads);
          const WordVector second = load_words(quads + kVectorBytes);
          for (std::size_t t = 0; t < T; ++t) {
            const std::int8_t* eight = x + t * p.in_features;
            if constexpr (kIsBiased) {
              dot_biased_bytes(first, eight, dots[t]);
              dot_biased_bytes(second, eight + 4, dots[t]);
            } else {
              QuadSums both;
              both.add(first, eight);
              both.add(second, eight + 4);
              both.add_to(dots[t]);
            }
          }
        }
        if constexpr (kGroupSize == 32) {
          for (std::size_t t = 0; t < T; ++t) sums[t] = dots[t];
        } else {
          const IntVector factor = load(block.factor(h * kHalves + g));
          for (std::size_t t = 0; t < T; ++t) {
            for (std::size_t i = 0; i < kParts; ++i) sums[t].part[i] += dots[t].part[i] * factor.part[i];
          }
        }
      }
      const Vector scale = load(block.scale(h));
      for (std::size_t t = 0; t < T; ++t)
        add_scaled(sums[t], scale, p.x_scales[(token + t) * (p.in_features / kGroup) + x_group], results[t]);
      if constexpr (kHasOffsets) {
        for (std::size_t g = 0; g < kHalves; ++g) {
          const Vector offset = load(block.offset(h * kHalves + g));
          for (std::size_t t = 0; t < T; ++t)
            multiply_add(offset, p.x_sums[first_group + t * groups + g], results[t]);
        }
      }
      end_group(x_group);
    }
  }
};

}  // namespace
}  // namespace tp::kernels
