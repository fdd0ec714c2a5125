// A quantized weight with the scales of groups, where a file stores it.
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

// The value of an element is (number - zero point) * scale, or element * scale for e4m3. Words of 32 bits
// have 8 numbers of 4 bits or 4 of 8:
//   awq: [in_features, out_features / 8]; zero points [groups, out_features / 8]: outputs 0, 2, 4, 6, 1, 3,
//   5,
//     7 of eight, or 0, 2, 1, 3 of four, the lowest bits first. Scales [groups, out_features].
//   gptq: words [in_features / 8, out_features]; zero points [groups, out_features / 8], which its first
//   format
//     stores less one, modulo 16 or 256; scales [groups, out_features].
//   packed: words [out_features, in_features / 8], scales [out_features, groups]; zero points, if any,
//     [out_features / 8, groups], or as a signed byte less 8 or 128 each, [out_features, groups]. They are 8
//     or 128 where there are none.
//   bytes: [out_features, in_features], e4m3 or signed numbers, to which 128 is to be added; the others as
//   with
//     packed words, and rows may share them.
//   mxfp4: bytes [out_features, in_features / 2] with two elements each, the first one in the lower half,
//   which
//     are indices of a table; scales [out_features, in_features / 32] are exponents of 2, plus 127.
struct StoredGroups {
  enum class Layout : std::uint8_t { awq, gptq, packed, bytes, mxfp4 };
  enum class ZeroPoints : std::uint8_t { none, words, bytes };

  Layout layout = Layout::bytes;
  unsigned bits = 8;
  bool is_e4m3 = false;
  MatrixShape shape;  // [out_features, in_features]
  StoredScales groups;
  const std::byte* scales = nullptr;
  bool scales_are_exponents = false;  // of `bytes`: of 2, plus 127 (E8M0), which bf16 holds exactly
  const std::byte* zero_points = nullptr;
  ZeroPoints zero_points_kind = ZeroPoints::none;
  bool zero_points_less_one = false;

  // The file's matrix of words or bytes, and the part of it that has a slice.
  MatrixShape stored_shape() const;
  TensorSlice stored_slice(const TensorSlice& slice) const;

  // The slice, whose part of the file's matrix is at `from`, as float32.
  void read(const RowsInMemory& from, const TensorSlice& slice, TensorView<float> out) const;
  // The super-blocks of 256 columns that the slice touches, with zeros for elements beside it.
  void read(const RowsInMemory& from, const TensorSlice& slice, const kernels::QuantizedRows& out) const;
  // Its elements and the groups that its columns touch.
  void read(const RowsInMemory& from, const TensorSlice& slice, const kernels::ScaledRows& out) const;

 private:
  unsigned per_word() const { return 32 / bits; }
  int zero() const { return 1 << (bits - 1); }  // where there are no zero points
  unsigned bits_of(std::uint32_t word, std::size_t index) const;
  std::size_t awq_place(std::size_t row) const;  // of an output in its word
  // A row's elements of the columns in `columns`, numbers or the bits of e4m3.
  void read_elements(const RowsInMemory& from, const TensorSlice& slice, std::uint8_t* out,
                     std::size_t stride) const;
  int zero_point(std::size_t row, std::size_t group) const;
  std::uint32_t scale_bits(std::size_t row, std::size_t group) const;
  float scale(std::size_t row, std::size_t group) const;
  std::uint8_t exponent(std::size_t row, std::size_t group) const;
};

}  // namespace tp
