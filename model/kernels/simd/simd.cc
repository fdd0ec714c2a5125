#include "model/kernels/simd/simd.h"

#include "model/kernels/simd/attention/attention_tile.h"
#include "model/kernels/simd/elementwise.h"
#include "model/kernels/simd/isa.h"
#include "model/kernels/simd/matmul/packed.h"
#include "model/kernels/simd/pack/pack.h"
#include "model/kernels/simd/tiles/tile_product.h"

// One namespace per compilation of this folder's *_kernels.cc.
#define TP_DECLARE_LEVEL(level)                        \
  namespace tp::kernels::level {                       \
  extern const SimdKernels kKernels;                   \
  extern const PackedKernels kPackedKernels;           \
  extern const QuantKernels kQuantKernels;             \
  extern const ScaledKernels kScaledKernels;           \
  extern const AttentionKernels kAttentionKernels;     \
  extern const ElementwiseKernels kElementwiseKernels; \
  extern const PackKernels kPackKernels;               \
  extern const PeakKernels kPeakKernels;               \
  }
#define TP_LEVEL(level, tiles, attend_by_tiles)                                                         \
  {                                                                                                     \
    level::kKernels, level::kPackedKernels, level::kQuantKernels, level::kScaledKernels,                \
        level::kAttentionKernels, level::kElementwiseKernels, level::kPackKernels, level::kPeakKernels, \
        tiles, attend_by_tiles                                                                          \
  }

TP_DECLARE_LEVEL(portable)
#ifdef TP_X86_LEVELS
TP_DECLARE_LEVEL(avx2)
// Only the products of integers.
namespace tp::kernels::avx_vnni {
extern const QuantKernels kQuantKernels;
}
namespace tp::kernels::avx_vnni_evex {
extern const QuantKernels kQuantKernels;
}
TP_DECLARE_LEVEL(avx512)
TP_DECLARE_LEVEL(avx512_vnni)
TP_DECLARE_LEVEL(avx512_bf16)
#endif

namespace tp::kernels {
namespace {

struct Level {
  const SimdKernels& simd;
  const PackedKernels& packed;
  const QuantKernels& quant;
  const ScaledKernels& scaled;
  const AttentionKernels& attention;
  const ElementwiseKernels& elementwise;
  const PackKernels& pack;
  const PeakKernels& peak;
  const TileKernels* tiles;
  TileAttention tile_attention;
};

#ifdef TP_X86_LEVELS
Level with_quants(const Level& base, const QuantKernels& quant) {
  return {base.simd,        base.packed, quant,     base.scaled, base.attention,
          base.elementwise, base.pack,   base.peak, base.tiles,  base.tile_attention};
}
#endif

const Level& level() {
  static const Level portable_level = TP_LEVEL(portable, nullptr, nullptr);
  static const Level emulated =
      TP_LEVEL(portable, &amx_emulated::kTileKernels, amx_emulated::attend_by_tiles);
#ifdef TP_X86_LEVELS
  static const Level avx2_level = TP_LEVEL(avx2, nullptr, nullptr);
  static const Level avx_vnni_level =
      with_quants(avx2_level, has_avx_vnni() ? avx_vnni::kQuantKernels : avx_vnni_evex::kQuantKernels);
  static const Level avx512_level = TP_LEVEL(avx512, nullptr, nullptr);
  static const Level avx512_vnni_level = TP_LEVEL(avx512_vnni, nullptr, nullptr);
  static const Level avx512_bf16_level = TP_LEVEL(avx512_bf16, nullptr, nullptr);
  static const Level amx_level = TP_LEVEL(avx512_bf16, &amx::kTileKernels, amx::attend_by_tiles);
#endif
  switch (active_isa()) {
#ifdef TP_X86_LEVELS
    case Isa::amx:
      return amx_level;
    case Isa::avx512_bf16:
      return avx512_bf16_level;
    case Isa::avx512_vnni:
      return avx512_vnni_level;
    case Isa::avx512:
      return avx512_level;
    case Isa::avx_vnni:
      return avx_vnni_level;
    case Isa::avx2:
      return avx2_level;
#endif
    case Isa::amx_emulated:
      return emulated;
    default:
      return portable_level;
  }
}

}  // namespace

const SimdKernels& simd() { return level().simd; }
const PackedKernels& packed_kernels() { return level().packed; }
const QuantKernels& quant_kernels() { return level().quant; }
const ScaledKernels& scaled_kernels() { return level().scaled; }
const AttentionKernels& attention_kernels() { return level().attention; }
const ElementwiseKernels& elementwise_kernels() { return level().elementwise; }
const PackKernels& pack_kernels() { return level().pack; }
const TileKernels* tile_kernels() { return level().tiles; }
TileAttention tile_attention() { return level().tile_attention; }

PeakKernels peak_kernels() {
  PeakKernels peaks = level().peak;
  const TileKernels* tiles = tile_kernels();
  if (tiles != nullptr && tiles->multiply_bf16 != nullptr) {
    peaks.multiply_bf16 = tiles->multiply_bf16;
    peaks.multiply_int8 = tiles->multiply_int8;
  }
#ifdef TP_X86_LEVELS
  // Reading with wider registers gains nothing. It was up to 6 % slower, depending on where the linker placed
  // the loop.
  if (active_isa() >= Isa::avx512_vnni && active_isa() <= Isa::amx) peaks.stream = avx2::kPeakKernels.stream;
#endif
  return peaks;
}

}  // namespace tp::kernels
