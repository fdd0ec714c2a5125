// Products with the K types of GGUF files, compiled once per instruction set.
#include "model/kernels/simd/matmul/quant_products.h"

namespace tp::kernels::TP_ISA_NAMESPACE {

QuantProduct k_quant_product(const QuantFormat* format) {
  static constexpr QuantEntry kProducts[] = {{&kQ4K, multiply_few<kQ4K>},
                                             {&kQ5K, multiply_few<kQ5K>},
                                             {&kQ6K, multiply_few<kQ6K>},
                                             {&kQ3K, multiply_chunked<kQ3K>},
                                             {&kQ2K, multiply_chunked<kQ2K>}};
  return find_product<kKQuantProducts>(kProducts, format);
}

}  // namespace tp::kernels::TP_ISA_NAMESPACE
