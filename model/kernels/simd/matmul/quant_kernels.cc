// Compiled once per instruction set; see simd.h for the restrictions.

#include "model/kernels/simd/matmul/panel_results.h"
#include "model/kernels/simd/matmul/quant_groups.h"
#include "model/kernels/simd/vector/vector.h"

namespace tp::kernels::TP_ISA_NAMESPACE {
namespace {

static_assert(kKQuantProducts + kBlockQuantProducts + kCodeQuantProducts + kInt4Products ==
              sizeof(kQuantFormats) / sizeof(kQuantFormats[0]));

void multiply(const PanelProduct& p) {
  constexpr QuantProduct (*kFind[])(const QuantFormat*) = {k_quant_product, block_quant_product,
                                                           code_quant_product, int4_product};
  for (const auto& find : kFind) {
    if (const QuantProduct product = find(p.format)) return product(p);
  }
}

template <std::size_t kGroupSize>
void sum_groups(const QuantFormat& format, const std::int8_t* bytes, const float* scales, std::size_t size,
                std::int32_t* corrections, float* sums, std::size_t tokens_apart) {
  const float sign = format.subtracts ? -1.0F : 1.0F;
  for (std::size_t group = 0; group < size / kGroupSize; ++group) {
    const std::size_t column = group * kGroupSize;
    const std::size_t x_place = column / kGroup * tokens_apart;
    const std::int8_t* of_group = bytes + x_place * kGroup + column % kGroup;
    const std::int32_t sum = sum_of_bytes<kGroupSize>(of_group);
    if (format.has_offsets) {
      sums[group * tokens_apart] = sign * static_cast<float>(sum) * scales[x_place];
    } else {
      corrections[group * tokens_apart] = -format.zero * sum;
    }
  }
}

void sum_groups(const QuantFormat& format, const std::int8_t* bytes, const float* scales, std::size_t size,
                std::int32_t* corrections, float* sums, std::size_t tokens_apart) {
  if (format.group == 16) return sum_groups<16>(format, bytes, scales, size, corrections, sums, tokens_apart);
  sum_groups<32>(format, bytes, scales, size, corrections, sums, tokens_apart);
}

}  // namespace

extern const QuantKernels kQuantKernels;
const QuantKernels kQuantKernels = {multiply, multiply_int4, sum_groups};

}  // namespace tp::kernels::TP_ISA_NAMESPACE
