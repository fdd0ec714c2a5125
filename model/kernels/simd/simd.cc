#include "model/kernels/simd/simd.h"

#include "model/kernels/isa.h"
#include "model/kernels/simd/attention_tile.h"
#include "model/kernels/simd/elementwise.h"
#include "model/kernels/simd/packed.h"

// One namespace for each compilation of the kernels beside this file.
#define TP_DECLARE_LEVEL(level)                        \
  namespace tp::kernels::level {                       \
  extern const SimdKernels kKernels;                   \
  extern const PackedKernels kPackedKernels;           \
  extern const AttentionKernels kAttentionKernels;     \
  extern const ElementwiseKernels kElementwiseKernels; \
  }

TP_DECLARE_LEVEL(portable)
#if defined(__x86_64__)
TP_DECLARE_LEVEL(avx2)
TP_DECLARE_LEVEL(avx512)
TP_DECLARE_LEVEL(avx512_bf16)
#endif

namespace tp::kernels {
namespace {

struct Level {
  const SimdKernels& simd;
  const PackedKernels& packed;
  const AttentionKernels& attention;
  const ElementwiseKernels& elementwise;
};

Level choose_level() {
  switch (active_isa()) {
#if defined(__x86_64__)
    case Isa::avx512_bf16:
      return {avx512_bf16::kKernels, avx512_bf16::kPackedKernels, avx512_bf16::kAttentionKernels,
              avx512_bf16::kElementwiseKernels};
    case Isa::avx512:
      return {avx512::kKernels, avx512::kPackedKernels, avx512::kAttentionKernels,
              avx512::kElementwiseKernels};
    case Isa::avx2:
      return {avx2::kKernels, avx2::kPackedKernels, avx2::kAttentionKernels, avx2::kElementwiseKernels};
#endif
    default:
      return {portable::kKernels, portable::kPackedKernels, portable::kAttentionKernels,
              portable::kElementwiseKernels};
  }
}

const Level& level() {
  static const Level chosen = choose_level();
  return chosen;
}

}  // namespace

const SimdKernels& simd() { return level().simd; }
const PackedKernels& packed_kernels() { return level().packed; }
const AttentionKernels& attention_kernels() { return level().attention; }
const ElementwiseKernels& elementwise_kernels() { return level().elementwise; }

}  // namespace tp::kernels
