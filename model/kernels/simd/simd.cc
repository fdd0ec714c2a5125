#include "model/kernels/simd/simd.h"

#include "model/kernels/simd/amx.h"
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

// Integer products, attention to bytes, and peak rates.
#define TP_DECLARE_INTEGERS(level)                 \
  namespace tp::kernels::level {                   \
  extern const QuantKernels kQuantKernels;         \
  extern const AttentionKernels kAttentionKernels; \
  extern const PeakKernels kPeakKernels;           \
  }

TP_DECLARE_LEVEL(portable)
TP_DECLARE_LEVEL(avx2)
TP_DECLARE_INTEGERS(avx_vnni)
TP_DECLARE_INTEGERS(avx_vnni_evex)
TP_DECLARE_LEVEL(avx512)
TP_DECLARE_INTEGERS(avx512_vnni)
TP_DECLARE_LEVEL(avx512_bf16)
TP_DECLARE_LEVEL(neon)
TP_DECLARE_LEVEL(dotprod)
TP_DECLARE_LEVEL(i8mm)

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

// The macros TP_WITH_... name the instruction sets that this build has kernels for.
#if defined(TP_WITH_AVX_VNNI)
Level with_integers(const Level& base, const QuantKernels& quant) {
  return {base.simd,        base.packed, quant,     base.scaled, base.attention,
          base.elementwise, base.pack,   base.peak, base.tiles,  base.tile_attention};
}
#endif

#if defined(TP_WITH_NEON)
Level with_products(const PackedKernels& packed, const QuantKernels& quant, const PeakKernels& peak) {
  return {neon::kKernels,
          packed,
          quant,
          neon::kScaledKernels,
          neon::kAttentionKernels,
          neon::kElementwiseKernels,
          neon::kPackKernels,
          peak,
          nullptr,
          nullptr};
}
#endif

// The kernels for an instruction set, or nullptr if this build has none.
const Level* level_of(Isa isa) {
  switch (isa) {
    case Isa::portable: {
      static const Level kernels = TP_LEVEL(portable, nullptr, nullptr);
      return &kernels;
    }
#if defined(TP_WITH_AVX2)
    case Isa::avx2: {
      static const Level kernels = TP_LEVEL(avx2, nullptr, nullptr);
      return &kernels;
    }
#endif
#if defined(TP_WITH_AVX_VNNI)
    case Isa::avx_vnni: {
      static const Level kernels = with_integers(
          *level_of(Isa::avx2), has_avx_vnni() ? avx_vnni::kQuantKernels : avx_vnni_evex::kQuantKernels);
      return &kernels;
    }
#endif
#if defined(TP_WITH_AVX512)
    case Isa::avx512: {
      static const Level kernels = TP_LEVEL(avx512, nullptr, nullptr);
      return &kernels;
    }
#endif
#if defined(TP_WITH_AVX512_VNNI)
    case Isa::avx512_vnni: {
      static const Level kernels = {avx512::kKernels,
                                    avx512::kPackedKernels,
                                    avx512_vnni::kQuantKernels,
                                    avx512::kScaledKernels,
                                    avx512_vnni::kAttentionKernels,
                                    avx512::kElementwiseKernels,
                                    avx512::kPackKernels,
                                    avx512_vnni::kPeakKernels,
                                    nullptr,
                                    nullptr};
      return &kernels;
    }
#endif
#if defined(TP_WITH_AVX512_BF16)
    case Isa::avx512_bf16: {
      static const Level kernels = TP_LEVEL(avx512_bf16, nullptr, nullptr);
      return &kernels;
    }
#endif
#if defined(TP_WITH_AMX)
    case Isa::amx: {
      static const Level kernels = TP_LEVEL(avx512_bf16, &amx::kTileKernels, amx::attend_by_tiles);
      return &kernels;
    }
#endif
#if defined(TP_WITH_NEON)
    case Isa::neon: {
      static const Level kernels = TP_LEVEL(neon, nullptr, nullptr);
      return &kernels;
    }
#endif
#if defined(TP_WITH_DOTPROD)
    case Isa::dotprod: {
      static const Level kernels =
          with_products(dotprod::kPackedKernels, dotprod::kQuantKernels, dotprod::kPeakKernels);
      return &kernels;
    }
#endif
#if defined(TP_WITH_I8MM)
    case Isa::i8mm: {
      static const Level kernels =
          with_products(i8mm::kPackedKernels, i8mm::kQuantKernels, i8mm::kPeakKernels);
      return &kernels;
    }
#endif
#if defined(TP_WITH_AMX_EMULATED)
    case Isa::amx_emulated: {
      static const Level kernels =
          TP_LEVEL(portable, &amx_emulated::kTileKernels, amx_emulated::attend_by_tiles);
      return &kernels;
    }
#endif
    default:
      return nullptr;
  }
}

const Level& level() { return *level_of(active_isa()); }

}  // namespace

bool is_compiled(Isa isa) { return level_of(isa) != nullptr; }

bool amx_tiles_work() {
  const Level* const amx = level_of(Isa::amx);
  return amx != nullptr && amx->tiles->works();
}

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
#if defined(TP_WITH_AVX2)
  // Reading with wider registers gains nothing. It was up to 6 % slower, depending on where the linker placed
  // the loop.
  if (active_isa() >= Isa::avx512_vnni && active_isa() <= Isa::amx) peaks.stream = avx2::kPeakKernels.stream;
#endif
  return peaks;
}

}  // namespace tp::kernels
