// Compiled once for every instruction set; see simd.h for what may not be used here.
//
// Few tokens read panels as they are, of the types that files mostly have. For more, and with other types,
// chunks are unpacked to the first-level cache first: all tokens pass over them there. Where half-bytes take
// one instruction each, they are not unpacked.

#include "model/kernels/simd/chunk_passes.h"
#include "model/kernels/simd/half_bytes.h"
#include "model/kernels/simd/packed.h"
#include "model/kernels/simd/quant_blocks.h"
#include "model/kernels/simd/quant_tiles.h"
#include "model/kernels/simd/vector.h"

#ifndef TP_ISA_NAMESPACE
#error "compile with -DTP_ISA_NAMESPACE=portable, avx2, ..."
#endif

namespace tp::kernels::TP_ISA_NAMESPACE {
namespace {

template <const QuantFormat& F>
const UnpackedOf<F>* unpack_chunk(const PanelProduct& p, const unsigned char* panel, std::size_t begin,
                                  std::size_t count, UnpackedOf<F>* room) {
  for (std::size_t i = 0; i < count; ++i)
    unpack<F>(panel + F.place(p.first_block, begin + i), panel + F.super_place(p.first_block, begin + i),
              room[i]);
  return room;
}

template <const QuantFormat& F>
void multiply_chunked(const PanelProduct& p) {
  if constexpr (kTakesHalfBytes<F>) {
    multiply_half_bytes<F>(p);
  } else {
    multiply_chunks(p, Chunks<UnpackedOf<F>>{unpack_chunk<F>,
                                             [](const PanelProduct& product, std::size_t block) {
                                               return F.place(product.first_block, block);
                                             },
                                             F.block_bytes()});
  }
}

template <const QuantFormat& F>
void multiply_few(const PanelProduct& p) {
  if (p.sums != nullptr || p.tokens > QuantTile<F>::kTokens) return multiply_chunked<F>(p);
  run_panels(QuantTile<F>{p});
}

void multiply(const PanelProduct& p) {
  constexpr void (*kMultiply[])(const PanelProduct&) = {multiply_few<kQ4K>,
                                                        multiply_few<kQ5K>,
                                                        multiply_few<kQ6K>,
                                                        multiply_chunked<kQ3K>,
                                                        multiply_chunked<kQ2K>,
                                                        multiply_chunked<kQ41>,
                                                        multiply_chunked<kQ50>,
                                                        multiply_chunked<kQ51>,
                                                        multiply_chunked<kIq4Nl>,
                                                        multiply_chunked<kIq4Xs>,
                                                        multiply_few<kMxfp4>,
                                                        multiply_chunked<kInt4G32>,
                                                        multiply_few<kInt4G64>,
                                                        multiply_few<kInt4G128>,
                                                        multiply_chunked<kInt4G256>,
                                                        multiply_chunked<kInt4G32Bf16>,
                                                        multiply_chunked<kInt4G64Bf16>,
                                                        multiply_few<kInt4G128Bf16>,
                                                        multiply_chunked<kInt4G256Bf16>,
                                                        multiply_chunked<kInt4SymG32>,
                                                        multiply_chunked<kInt4SymG32Bf16>};
  static_assert(sizeof(kMultiply) / sizeof(kMultiply[0]) == sizeof(kQuantFormats) / sizeof(kQuantFormats[0]));
  for (std::size_t i = 0; i < sizeof(kMultiply) / sizeof(kMultiply[0]); ++i) {
    if (kQuantFormats[i] == p.format) return kMultiply[i](p);
  }
}

template <std::size_t kGroupSize>
void sum_groups(const QuantFormat& format, const std::int8_t* bytes, const float* scales, std::size_t size,
                std::int32_t* corrections, float* sums, std::size_t tokens_apart) {
  const float sign = format.subtracts ? -1.0F : 1.0F;
  for (std::size_t group = 0; group < size / kGroupSize; ++group) {
    const std::size_t column = group * kGroupSize;
    const std::size_t x_place = column / kGroup * tokens_apart;
    const std::int8_t* of_group = bytes + x_place * kGroup + column % kGroup;
    const std::int32_t sum = sum_of_bytes<kGroupSize>(of_group);
    if (format.has_offsets) {
      sums[group * tokens_apart] = sign * static_cast<float>(sum) * scales[x_place];
    } else {
      corrections[group * tokens_apart] = -format.zero * sum;
    }
  }
}

void sum_groups(const QuantFormat& format, const std::int8_t* bytes, const float* scales, std::size_t size,
                std::int32_t* corrections, float* sums, std::size_t tokens_apart) {
  if (format.group == 16) return sum_groups<16>(format, bytes, scales, size, corrections, sums, tokens_apart);
  sum_groups<32>(format, bytes, scales, size, corrections, sums, tokens_apart);
}

}  // namespace

extern const QuantKernels kQuantKernels;
const QuantKernels kQuantKernels = {multiply, multiply_few<kInt4SymG32>, sum_groups};

}  // namespace tp::kernels::TP_ISA_NAMESPACE
