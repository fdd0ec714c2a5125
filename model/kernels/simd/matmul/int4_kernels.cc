// Products with the 4-bit types of AWQ, GPTQ and compressed-tensors, compiled once per instruction set.
#include "model/kernels/simd/matmul/quant_products.h"

namespace tp::kernels::TP_ISA_NAMESPACE {

QuantProduct int4_product(const QuantFormat* format) {
  static constexpr QuantEntry kProducts[] = {
      {&kInt4G32, multiply_chunked<kInt4G32>},         {&kInt4G64, multiply_few<kInt4G64>},
      {&kInt4G128, multiply_few<kInt4G128>},           {&kInt4G256, multiply_chunked<kInt4G256>},
      {&kInt4G32Bf16, multiply_chunked<kInt4G32Bf16>}, {&kInt4G64Bf16, multiply_chunked<kInt4G64Bf16>},
      {&kInt4G128Bf16, multiply_few<kInt4G128Bf16>},   {&kInt4G256Bf16, multiply_chunked<kInt4G256Bf16>},
      {&kInt4SymG32, multiply_chunked<kInt4SymG32>},   {&kInt4SymG32Bf16, multiply_chunked<kInt4SymG32Bf16>}};
  return find_product<kInt4Products>(kProducts, format);
}

void multiply_int4(const PanelProduct& p) { multiply_few<kInt4SymG32>(p); }

}  // namespace tp::kernels::TP_ISA_NAMESPACE
