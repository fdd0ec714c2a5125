#include "model/kernels/simd/simd.h"

#include "model/kernels/isa.h"
#include "model/kernels/simd/packed.h"

// One namespace for each compilation of simd_kernels.cc and packed_kernels.cc.
#define TP_DECLARE_LEVEL(level)              \
  namespace tp::kernels::level {             \
  extern const SimdKernels kKernels;         \
  extern const PackedKernels kPackedKernels; \
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
};

Level choose_level() {
  switch (active_isa()) {
#if defined(__x86_64__)
    case Isa::avx512_bf16:
      return {avx512_bf16::kKernels, avx512_bf16::kPackedKernels};
    case Isa::avx512:
      return {avx512::kKernels, avx512::kPackedKernels};
    case Isa::avx2:
      return {avx2::kKernels, avx2::kPackedKernels};
#endif
    default:
      return {portable::kKernels, portable::kPackedKernels};
  }
}

const Level& level() {
  static const Level chosen = choose_level();
  return chosen;
}

}  // namespace

const SimdKernels& simd() { return level().simd; }
const PackedKernels& packed_kernels() { return level().packed; }

}  // namespace tp::kernels
