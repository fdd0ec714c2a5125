// A quantized weight with scales of groups, as stored in a file.
#pragma once

#include "model/kernels/packed_weight.h"
#include "model/kernels/scaled_weight.h"
#include "model/weights/source/fetched_columns.h"
#include "model/weights/source/stored_scales.h"
#include "parallel/shard/slice.h"
#include "tp/tensor.h"

#include <cstddef>
#include <cstdint>

namespace tp {

// Scales that are quantized themselves: scale i is map[byte i] * maxima[i / block] + offset.
struct NestedScales {
  const std::byte* map = nullptr;     // [256] float32; null if scales are not nested
  const std::byte* maxima = nullptr;  // float32
  std::size_t block = 1;
  float offset = 0.0F;
};

// An element's value is (number - zero point) * scale; for e4m3, element * scale. A 32-bit word has 8 numbers
// of 4 bits, or 4 of 8 bits. Layouts, with 4 bits:
//   awq: words [in_features, out_features / 8], zero points [groups, out_features / 8], scales [groups,
//     out_features]. A word has outputs 0, 2, 4, 6, 1, 3, 5, 7 of eight, or 0, 2, 1, 3 of four, lowest bits
//     first.
//   gptq: words [in_features / 8, out_features], zero points and scales like awq. GPTQ's first format stores
//     zero points less one, modulo 16 or 256.
//   packed: words [out_features, in_features / 8], scales [out_features, groups]. Zero points, if any, are
//     words [out_features / 8, groups], or signed bytes less 8 or 128, [out_features, groups]; else 8 or 128.
//   bytes: [out_features, in_features], e4m3, or signed numbers to which 128 is added. Scales and zero
//     points like packed; rows may share them.
//   mxfp4: bytes [out_features, in_features / 2] of two elements, the first in the low half, which are
//     indices of a table. Scales [out_features, in_features / 32] are exponents of 2, plus 127.
//   nvfp4: like mxfp4, but scales [out_features, in_features / 16] are e4m3, and `factor` multiplies all
//     elements.
//   nf4: bytes like mxfp4's, but the first element is in the high half, and the table is kNf4Values. Scales
//     [out_features, groups] are float32, or bytes if they are nested.
struct StoredGroups {
  enum class Layout : std::uint8_t { awq, gptq, packed, bytes, mxfp4, nvfp4, nf4 };
  enum class ZeroPoints : std::uint8_t { none, words, bytes };

  Layout layout = Layout::bytes;
  unsigned bits = 8;
  bool is_e4m3 = false;
  MatrixShape shape;  // [out_features, in_features]
  StoredScales groups;
  const std::byte* scales = nullptr;
  float factor = 1.0F;
  NestedScales nested{};
  bool scales_are_exponents = false;  // E8M0: exponents of 2, plus 127; exact in bf16
  const std::byte* zero_points = nullptr;
  ZeroPoints zero_points_kind = ZeroPoints::none;
  bool zero_points_less_one = false;

  // The shape of the file's matrix of words or bytes, and the part of this matrix that contains a slice.
  MatrixShape stored_shape() const;
  TensorSlice stored_slice(const TensorSlice& slice) const;

  // Reads a slice as float32. `from`: the slice's part of the file's matrix.
  void read(const RowsInMemory& from, const TensorSlice& slice, TensorView<float> out) const;
  // Reads the super-blocks of 256 columns that the slice touches. Elements outside the slice are zero.
  void read(const RowsInMemory& from, const TensorSlice& slice, const kernels::QuantizedRows& out) const;
  // Reads the slice's elements and the groups that its columns touch.
  void read(const RowsInMemory& from, const TensorSlice& slice, const kernels::ScaledRows& out) const;

 private:
  unsigned per_word() const { return 32 / bits; }
  int zero() const { return 1 << (bits - 1); }  // zero point if the file has none
  unsigned bits_of(std::uint32_t word, std::size_t index) const;
  std::size_t awq_place(std::size_t row) const;  // place of an output in its word
  // Reads the slice's elements, as numbers or bits of e4m3.
  void read_elements(const RowsInMemory& from, const TensorSlice& slice, std::uint8_t* out,
                     std::size_t stride) const;
  int zero_point(std::size_t row, std::size_t group) const;
  std::uint32_t scale_bits(std::size_t row, std::size_t group) const;
  float scale(std::size_t row, std::size_t group) const;
  std::uint8_t scale_byte(std::size_t row, std::size_t group) const;
  bool has_two_in_a_byte() const { return layout >= Layout::mxfp4; }
  bool has_fp4() const { return layout == Layout::mxfp4 || layout == Layout::nvfp4; }
  void read_nvfp4_scales(std::size_t row, std::size_t first, std::size_t index,
                         const kernels::QuantizedRows& out) const;
};

}  // namespace tp
