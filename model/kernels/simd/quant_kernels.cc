// Compiled once for every instruction set; see simd.h for what may not be used here.
//
// Few tokens read panels as they are, of the types that files mostly have. For more, and with other types,
// some panels at a time are unpacked to the second-level cache first: all tokens pass over them there.

#include "model/kernels/simd/packed.h"
#include "model/kernels/simd/panel_passes.h"
#include "model/kernels/simd/quant_blocks.h"
#include "model/kernels/simd/quant_tiles.h"
#include "model/kernels/simd/vector.h"

#ifndef TP_ISA_NAMESPACE
#error "compile with -DTP_ISA_NAMESPACE=portable, avx2, ..."
#endif

namespace tp::kernels::TP_ISA_NAMESPACE {
namespace {

constexpr std::size_t unpacked_bytes(const QuantFormat& format) {
  return format.group == 16
             ? format.has_offsets ? sizeof(UnpackedBlock<16, true>) : sizeof(UnpackedBlock<16, false>)
         : format.has_offsets ? sizeof(UnpackedBlock<32, true>)
                              : sizeof(UnpackedBlock<32, false>);
}

// Panels that are unpacked at a time.
std::size_t panels_at_once(const QuantFormat& format, std::size_t in_features) {
  const std::size_t panel = in_features / kBlock * unpacked_bytes(format);
  return 2 * panel < kResidentBytes ? kResidentBytes / (panel + 1) : 1;
}

std::size_t scratch_bytes(const QuantFormat& format, std::size_t in_features, std::size_t panels) {
  const std::size_t most = panels_at_once(format, in_features);
  return (panels < most ? panels : most) * (in_features / kBlock) * unpacked_bytes(format);
}

template <const QuantFormat& F>
void multiply_unpacked(const PanelProduct& p) {
  const std::size_t blocks = p.in_features / kBlock;
  const std::size_t most = panels_at_once(F, p.in_features);
  auto* const unpacked = reinterpret_cast<UnpackedOf<F>*>(p.scratch);
  PanelProduct part = p;
  part.panels = p.scratch;
  part.panel_bytes = blocks * sizeof(UnpackedOf<F>);
  for (std::size_t begin = 0; begin < p.count; begin += most) {
    part.count = p.count - begin < most ? p.count - begin : most;
    for (std::size_t n = 0; n < part.count; ++n) {
      const unsigned char* panel = p.panels + (begin + n) * p.panel_bytes;
      for (std::size_t block = 0; block < blocks; ++block) {
        const unsigned char* from = panel + F.place(p.first_block, block);
        fetch_lines(from, F.block_bytes() / kVectorBytes + 1);
        unpack<F>(from, panel + F.super_place(p.first_block, block), unpacked[n * blocks + block]);
      }
    }
    if (p.y != nullptr) part.y = p.y + begin * kPanel;
    if (p.sums != nullptr) part.sums = p.sums + begin * kPanel;
    part.out_features = p.out_features - begin * kPanel;
    run_integers<UnpackedQuants<F.group, F.has_offsets, F.codebook == Codebook::iq4>>(part);
  }
}

template <const QuantFormat& F>
void multiply_few(const PanelProduct& p) {
  if (p.sums != nullptr || p.tokens > kFewTokens) return multiply_unpacked<F>(p);
  run_panels(QuantTile<F>{{p}});
}

void multiply(const PanelProduct& p) {
  constexpr void (*kMultiply[])(const PanelProduct&) = {multiply_few<kQ4K>,
                                                        multiply_few<kQ5K>,
                                                        multiply_few<kQ6K>,
                                                        multiply_unpacked<kQ3K>,
                                                        multiply_unpacked<kQ2K>,
                                                        multiply_unpacked<kQ41>,
                                                        multiply_unpacked<kQ50>,
                                                        multiply_unpacked<kQ51>,
                                                        multiply_unpacked<kIq4Nl>,
                                                        multiply_unpacked<kIq4Xs>,
                                                        multiply_few<kMxfp4>,
                                                        multiply_unpacked<kInt4G32>,
                                                        multiply_few<kInt4G64>,
                                                        multiply_few<kInt4G128>,
                                                        multiply_unpacked<kInt4G256>,
                                                        multiply_unpacked<kInt4G32Bf16>,
                                                        multiply_unpacked<kInt4G64Bf16>,
                                                        multiply_few<kInt4G128Bf16>,
                                                        multiply_unpacked<kInt4G256Bf16>,
                                                        multiply_unpacked<kInt4SymG32>,
                                                        multiply_unpacked<kInt4SymG32Bf16>};
  static_assert(sizeof(kMultiply) / sizeof(kMultiply[0]) == sizeof(kQuantFormats) / sizeof(kQuantFormats[0]));
  for (std::size_t i = 0; i < sizeof(kMultiply) / sizeof(kMultiply[0]); ++i) {
    if (kQuantFormats[i] == p.format) return kMultiply[i](p);
  }
}

template <std::size_t kGroupSize>
void sum_groups(const QuantFormat& format, const std::int8_t* bytes, const float* scales, std::size_t size,
                std::int32_t* corrections, float* sums) {
  const float sign = format.subtracts ? -1.0F : 1.0F;
  for (std::size_t group = 0; group < size / kGroupSize; ++group, bytes += kGroupSize) {
    std::int32_t sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::size_t i = 0; i < kGroupSize; ++i) sum += bytes[i];
    if (format.has_offsets) {
      sums[group] = sign * static_cast<float>(sum) * scales[group * kGroupSize / kGroup];
    } else {
      corrections[group] = -format.zero * sum;
    }
  }
}

void sum_groups(const QuantFormat& format, const std::int8_t* bytes, const float* scales, std::size_t size,
                std::int32_t* corrections, float* sums) {
  if (format.group == 16) return sum_groups<16>(format, bytes, scales, size, corrections, sums);
  sum_groups<32>(format, bytes, scales, size, corrections, sums);
}

}  // namespace

extern const QuantKernels kQuantKernels;
const QuantKernels kQuantKernels = {multiply, scratch_bytes, sum_groups};

}  // namespace tp::kernels::TP_ISA_NAMESPACE
