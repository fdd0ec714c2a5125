// Which file multiplies panels of which format. The files are several because the compiler takes long.
#pragma once

#include "model/kernels/simd/matmul/packed.h"

#ifndef TP_ISA_NAMESPACE
#error "compile with -DTP_ISA_NAMESPACE=portable, avx2, ..."
#endif

namespace tp::kernels::TP_ISA_NAMESPACE {

// How many formats each file has. Each file asserts its own number, and quant_kernels.cc that no format is
// missing.
inline constexpr std::size_t kKQuantProducts = 5;
inline constexpr std::size_t kBlockQuantProducts = 6;
inline constexpr std::size_t kInt4Products = 10;

using QuantProduct = void (*)(const PanelProduct&);

// The product with panels of a format; null if another file has it.
QuantProduct k_quant_product(const QuantFormat* format);
QuantProduct block_quant_product(const QuantFormat* format);
QuantProduct int4_product(const QuantFormat* format);
void multiply_int4(const PanelProduct& p);  // see QuantKernels

}  // namespace tp::kernels::TP_ISA_NAMESPACE
