// A weight of 4 bits in groups, where a file stores it.
#pragma once

#include "model/kernels/packed_weight.h"
#include "model/weights/checkpoint/group_quantization.h"
#include "parallel/slice.h"
#include "tp/tensor.h"

#include <cstddef>
#include <cstdint>

namespace tp {

// The value of an element is (number - zero point) * scale. Words of 32 bits have eight numbers of 4 bits:
//   AWQ: words [in_features, out_features / 8], zero points [groups, out_features / 8]: outputs 0, 2, 4, 6,
//   1,
//     3, 5, 7 of eight, the lowest bits first. Scales [groups, out_features].
//   GPTQ: words [in_features / 8, out_features]; zero points [groups, out_features / 8], which its first
//   format
//     stores less one, modulo 16; scales [groups, out_features].
//   compressed-tensors: words [out_features, in_features / 8]; scales [out_features, groups]; zero points, if
//     any, [out_features / 8, groups], or as a signed byte less 8 each, [out_features, groups]. They are 8
//     where there are none.
struct StoredGroups {
  enum class ZeroPoints : std::uint8_t { none, words, bytes };

  GroupQuantization quantization;
  MatrixShape shape;  // [out_features, in_features]
  std::size_t group;  // columns that share a scale
  const std::byte* words;
  const std::byte* scales;  // 16 bits each
  const std::byte* zero_points;
  ZeroPoints zero_points_kind;
  bool has_bf16_scales;

  std::size_t groups() const { return shape.columns / group; }
  unsigned number(std::size_t row, std::size_t column) const;
  unsigned zero_point(std::size_t row, std::size_t group_index) const;
  std::uint16_t scale(std::size_t row, std::size_t group_index) const;  // its bits

  // The slice as float32.
  void read(const TensorSlice& slice, TensorView<float> out) const;
  // The super-blocks of 256 columns that the slice touches; those behind the last column are zeros.
  void read(const TensorSlice& slice, const kernels::QuantizedRows& out) const;
};

}  // namespace tp
