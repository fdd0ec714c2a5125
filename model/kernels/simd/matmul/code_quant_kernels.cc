// Products with GGUF's types of fewer than 4 bits with codes or tables, compiled once per instruction set.
#include "model/kernels/simd/matmul/quant_products.h"

namespace tp::kernels::TP_ISA_NAMESPACE {

QuantProduct code_quant_product(const QuantFormat* format) {
  static constexpr QuantEntry kProducts[] = {
      {&kIq2Xxs, multiply_chunked<kIq2Xxs>}, {&kIq2Xs, multiply_chunked<kIq2Xs>},
      {&kIq2S, multiply_chunked<kIq2S>},     {&kIq3Xxs, multiply_chunked<kIq3Xxs>},
      {&kIq3S, multiply_chunked<kIq3S>},     {&kIq1S, multiply_chunked<kIq1S>},
      {&kIq1M, multiply_chunked<kIq1M>},     {&kTq10, multiply_chunked<kTq10>},
      {&kTq20, multiply_chunked<kTq20>},     {&kNvfp4, multiply_chunked<kNvfp4>}};
  return find_product<kCodeQuantProducts>(kProducts, format);
}

}  // namespace tp::kernels::TP_ISA_NAMESPACE
