// Lists which file multiplies panels of which format. Several files share the work because compiling takes
// long.
#pragma once

#include "model/kernels/simd/matmul/packed.h"

#ifndef TP_ISA_NAMESPACE
#error "compile with -DTP_ISA_NAMESPACE=portable, avx2, ..."
#endif

namespace tp::kernels::TP_ISA_NAMESPACE {

// Number of formats in each file. Each file asserts its own number; quant_kernels.cc asserts that no format
// is missing.
inline constexpr std::size_t kKQuantProducts = 5;
inline constexpr std::size_t kBlockQuantProducts = 6;
inline constexpr std::size_t kCodeQuantProducts = 10;
inline constexpr std::size_t kInt4Products = 10;

using QuantProduct = void (*)(const PanelProduct&);

// The product with panels of a format; null if another file contains it.
QuantProduct k_quant_product(const QuantFormat* format);
QuantProduct block_quant_product(const QuantFormat* format);
QuantProduct code_quant_product(const QuantFormat* format);
QuantProduct int4_product(const QuantFormat* format);
void multiply_int4(const PanelProduct& p);  // see QuantKernels

}  // namespace tp::kernels::TP_ISA_NAMESPACE
