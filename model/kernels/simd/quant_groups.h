// Which file multiplies panels of which format. The files are several because the compiler takes long.
#pragma once

#include "model/kernels/simd/packed.h"

#ifndef TP_ISA_NAMESPACE
#error "compile with -DTP_ISA_NAMESPACE=portable, avx2, ..."
#endif

namespace tp::kernels::TP_ISA_NAMESPACE {

using QuantProduct = void (*)(const PanelProduct&);

// The product with panels of a format; null if another file has it.
QuantProduct k_quant_product(const QuantFormat* format);
QuantProduct block_quant_product(const QuantFormat* format);
QuantProduct int4_product(const QuantFormat* format);
void multiply_int4(const PanelProduct& p);  // see QuantKernels

}  // namespace tp::kernels::TP_ISA_NAMESPACE
