// Loads panels with a ScaledFormat to vectors. For simd/*.cc only: everything is local to the translation
// unit.
#pragma once

#include "model/kernels/simd/matmul/quant_blocks.h"
#include "model/kernels/simd/pack/scaled_format.h"
#include "model/kernels/simd/vector/fp8.h"
#include "model/kernels/simd/vector/vector.h"

namespace tp::kernels {
namespace {

inline Vector to_floats(const IntVector& numbers) {
  Vector out;
  for (std::size_t i = 0; i < kParts; ++i)
    out.part[i] = __builtin_convertvector(numbers.part[i], FloatRegister);
  return out;
}

// The scales and zero points of a group, for 16 rows. With e4m3, scales are multiplied by 256.
struct GroupNumbers {
  Vector scales;
  Vector zero_points;
};

inline Vector load_scales(ScaleType type, const unsigned char* p) {
  if (type == ScaleType::f16) return load_f16(p);
  if (type == ScaleType::bf16) return load_bf16(p);
  return load_floats(p);
}

inline GroupNumbers load_group(const ScaledFormat& format, const unsigned char* panel, std::size_t group) {
  const std::size_t rows = format.scale_rows;
  const std::size_t size = format.scale_bytes();
  const unsigned char* scales = panel + format.scales_place() + group * rows * size;
  const unsigned char* zeros = panel + format.zero_points_place() + group * rows;
  unsigned char own_scales[4 * kLanes];
  unsigned char own_zeros[kLanes];
  if (rows < kLanes) {
    for (std::size_t r = 0; r < kLanes; ++r) {
      const std::size_t place = rows == 1 ? 0 : panel[r];
      if (size == 4)
        __builtin_memcpy(own_scales + 4 * r, scales + 4 * place, 4);
      else
        __builtin_memcpy(own_scales + 2 * r, scales + 2 * place, 2);
      own_zeros[r] = format.has_zero_points ? zeros[place] : 0;
    }
    scales = own_scales;
    zeros = own_zeros;
  }
  GroupNumbers out{load_scales(format.scale_type, scales), broadcast(static_cast<float>(format.zero()))};
  if (format.has_zero_points) out.zero_points = to_floats(load_bytes(zeros));
  if (format.element == ScaledElement::e4m3) {
    for (std::size_t i = 0; i < kParts; ++i) out.scales.part[i] *= 256.0F;
  }
  return out;
}

// The values of 16 rows in a column.
template <ScaledElement kElement>
[[gnu::always_inline]] inline Vector values_of_column(const unsigned char* elements, std::size_t column,
                                                      const GroupNumbers& group) {
  Vector out;
  if constexpr (kElement == ScaledElement::e4m3) {
    out = load_e4m3_over_256(elements + column * kLanes);
    for (std::size_t i = 0; i < kParts; ++i) out.part[i] *= group.scales.part[i];
    return out;
  }
  IntVector numbers;
  if constexpr (are_halves(kElement)) {
    numbers = load_bytes(elements + column / 2 * kLanes);
    const int down = 4 * static_cast<int>(column % 2);
    for (std::size_t i = 0; i < kParts; ++i) numbers.part[i] = (numbers.part[i] >> down) & 15;
  } else {
    numbers = load_bytes(elements + column * kLanes);
  }
  if constexpr (kElement == ScaledElement::nf4) {
    out = look_up_floats(kNf4Values, numbers);
    for (std::size_t i = 0; i < kParts; ++i) out.part[i] *= group.scales.part[i];
    return out;
  }
  out = to_floats(numbers);
  for (std::size_t i = 0; i < kParts; ++i)
    out.part[i] = (out.part[i] - group.zero_points.part[i]) * group.scales.part[i];
  return out;
}

}  // namespace
}  // namespace tp::kernels
