// Products with the remaining types of GGUF files and with MXFP4, compiled once per instruction set.
#include "model/kernels/simd/matmul/quant_products.h"

namespace tp::kernels::TP_ISA_NAMESPACE {

QuantProduct block_quant_product(const QuantFormat* format) {
  static constexpr QuantEntry kProducts[] = {
      {&kQ41, multiply_chunked<kQ41>},     {&kQ50, multiply_chunked<kQ50>},
      {&kQ51, multiply_chunked<kQ51>},     {&kIq4Nl, multiply_chunked<kIq4Nl>},
      {&kIq4Xs, multiply_chunked<kIq4Xs>}, {&kMxfp4, multiply_few<kMxfp4>}};
  return find_product<kBlockQuantProducts>(kProducts, format);
}

}  // namespace tp::kernels::TP_ISA_NAMESPACE
