// Products with the quantized types of checkpoints, for the files that instantiate them: everything is local
// to the translation unit. See simd.h for the restrictions.
//
// For the most common types, few tokens read panels in place. For more tokens or other types, chunks are
// first unpacked to the first-level cache, where all tokens pass over them. Half-bytes are not unpacked if
// each takes only one instruction.
#pragma once

#include "model/kernels/simd/matmul/chunk_passes.h"
#include "model/kernels/simd/matmul/half_bytes.h"
#include "model/kernels/simd/matmul/packed.h"
#include "model/kernels/simd/matmul/quant_blocks.h"
#include "model/kernels/simd/matmul/quant_groups.h"
#include "model/kernels/simd/matmul/quant_tiles.h"
#include "model/kernels/simd/vector/vector.h"

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

// A format and the product with its panels.
struct QuantEntry {
  const QuantFormat* format;
  QuantProduct multiply;
};

template <std::size_t kExpected, std::size_t kSize>
QuantProduct find_product(const QuantEntry (&entries)[kSize], const QuantFormat* format) {
  static_assert(kSize == kExpected);
  for (const QuantEntry& entry : entries) {
    if (entry.format == format) return entry.multiply;
  }
  return nullptr;
}

}  // namespace
}  // namespace tp::kernels::TP_ISA_NAMESPACE
