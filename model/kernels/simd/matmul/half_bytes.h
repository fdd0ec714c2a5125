// Products with elements of four bits that are not unpacked. For quant_kernels.cc only: everything is local
// to the translation unit.
//
// The low half of a byte is an element of one group. The high half, left in its place, is 16 times an element
// of the next group. So each element takes one instruction. The second group's sums begin with 16 times the
// correction, and its scale is divided by 16. Sums are exact and only exponents change. Therefore results
// have the same bits as with unpacked blocks, unless a scale is close to the smallest float.
#pragma once

#include "model/kernels/simd/matmul/chunk_passes.h"
#include "model/kernels/simd/matmul/quant_blocks.h"

namespace tp::kernels {
namespace {

// Only with 32-bit sums, because sums of pairs of such products exceed 16 bits.
#if defined(__AVX512VNNI__)
template <const QuantFormat& F>
constexpr bool kTakesHalfBytes =
    F.low_bits == 4 && F.high_bits == 0 && F.group == kGroup&& F.codebook == Codebook::none;
#else
template <const QuantFormat& F>
constexpr bool kTakesHalfBytes = false;
#endif

// A block of two groups.
template <bool kWithOffsets>
struct HalfByteBlock {
  static constexpr bool kIsUnpacked = false;
  static constexpr bool kHasOffsets = kWithOffsets;
  static constexpr std::size_t kGroups = 2;

  const unsigned char* bytes;  // [kGroup / 4][kVectorBytes]
  alignas(kVectorBytes) float scales[kGroups][kLanes];
  float offsets[kHasOffsets ? kGroups : 1][kLanes];
};

// Both groups have sums at the same time, because they share bytes.
template <bool kWithOffsets>
constexpr std::size_t kTokensOfOne<HalfByteBlock<kWithOffsets>> = 4;
template <bool kWithOffsets>
constexpr std::size_t kTokensOfTwo<HalfByteBlock<kWithOffsets>> = 4;
template <bool kWithOffsets>
constexpr bool kIsInPlace<HalfByteBlock<kWithOffsets>> = true;

template <bool kHasOffsets, std::size_t T, std::size_t N, class End>
[[gnu::always_inline]] inline void multiply_blocks(const PanelProduct& p,
                                                   const HalfByteBlock<kHasOffsets>* const (&blocks)[N],
                                                   std::size_t token, std::size_t column,
                                                   Vector (&results)[N][T], End& end_group) {
  constexpr std::size_t kGroups = HalfByteBlock<kHasOffsets>::kGroups;
  constexpr std::uint32_t kHalves[kGroups] = {0x0f0f0f0fU, 0xf0f0f0f0U};
  const GroupTerms<kGroup, kHasOffsets> terms{p, token};
  const std::size_t group = column / kGroup;
  IntVector sums[kGroups][N][T];
  for (std::size_t t = 0; t < T; ++t) {
    for (std::size_t g = 0; g < kGroups; ++g) {
      IntVector first = terms.begin(t, group + g);
      for (IntRegister& part : first.part) part <<= 4 * g;
      for (std::size_t n = 0; n < N; ++n) sums[g][n][t] = first;
    }
  }
  const std::int8_t* x[kGroups] = {terms.bytes(column), terms.bytes(column + kGroup)};
#pragma GCC unroll 8
  for (std::size_t q = 0; q < kGroup / 4; ++q) {
    WordVector w[kGroups][N];
    for (std::size_t n = 0; n < N; ++n) {
      const WordVector both = load_words(blocks[n]->bytes + q * kVectorBytes);
      for (std::size_t g = 0; g < kGroups; ++g) {
        for (std::size_t i = 0; i < kParts; ++i) w[g][n].part[i] = both.part[i] & kHalves[g];
      }
    }
    for (std::size_t t = 0; t < T; ++t) {
      for (std::size_t g = 0; g < kGroups; ++g) {
        for (std::size_t n = 0; n < N; ++n) dot_bytes(w[g][n], x[g] + t * kGroup + 4 * q, sums[g][n][t]);
      }
    }
  }
  for (std::size_t g = 0; g < kGroups; ++g) {
    for (std::size_t n = 0; n < N; ++n) {
      Vector offset = {};
      if constexpr (kHasOffsets) offset = load(blocks[n]->offsets[g]);
      terms.add(sums[g][n], group + g, load(blocks[n]->scales[g]), offset, results[n]);
    }
    end_group(group + g);
  }
}

template <const QuantFormat& F>
const HalfByteBlock<F.has_offsets>* load_half_bytes(const PanelProduct& p, const unsigned char* panel,
                                                    std::size_t begin, std::size_t count,
                                                    HalfByteBlock<F.has_offsets>* room) {
  for (std::size_t i = 0; i < count; ++i) {
    room[i].bytes = panel + F.place(p.first_block, begin + i);
    BlockScales<F> all(room[i].bytes, panel + F.super_place(p.first_block, begin + i));
    for (FloatRegister& part : all.scales[1].part) part *= 1.0F / 16;
    for (std::size_t g = 0; g < F.groups(); ++g) {
      store(all.scales[g], room[i].scales[g]);
      if constexpr (F.has_offsets) store(all.offsets[g], room[i].offsets[g]);
    }
  }
  return room;
}

template <const QuantFormat& F>
void multiply_half_bytes(const PanelProduct& p) {
  multiply_chunks(p, Chunks<HalfByteBlock<F.has_offsets>>{load_half_bytes<F>,
                                                          [](const PanelProduct& product, std::size_t block) {
                                                            return F.place(product.first_block, block);
                                                          },
                                                          F.block_bytes()});
}

}  // namespace
}  // namespace tp::kernels
