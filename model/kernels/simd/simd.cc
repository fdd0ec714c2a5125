#include "model/kernels/simd/simd.h"

#include "model/kernels/isa.h"

namespace tp::kernels {

namespace portable {
extern const SimdKernels kKernels;
}
#if defined(__x86_64__)
namespace avx2 {
extern const SimdKernels kKernels;
}
namespace avx512 {
extern const SimdKernels kKernels;
}
#endif

const SimdKernels& simd() {
  static const SimdKernels& kernels = []() -> const SimdKernels& {
    switch (active_isa()) {
#if defined(__x86_64__)
      case Isa::avx512:
        return avx512::kKernels;
      case Isa::avx2:
        return avx2::kKernels;
#endif
      default:
        return portable::kKernels;
    }
  }();
  return kernels;
}

}  // namespace tp::kernels
