// Weights in the layouts that the kernels read.
#pragma once

#include "model/kernels/simd/pack/quant_format.h"
#include "model/kernels/simd/pack/scaled_format.h"
#include "model/kernels/stored_rows.h"
#include "tp/memory_types.h"
#include "tp/tensor.h"

#include <cstddef>
#include <cstdint>

namespace tp {

// The type that represents stored elements exactly.
constexpr WeightType lossless_type(DType stored) {
  return stored == DType::f32 ? WeightType::f32 : stored == DType::f16 ? WeightType::f16 : WeightType::bf16;
}

// The type of an embedding or LM head if other weights have this type. Larger elements are not reduced to 4
// bits, because every logit depends on them directly.
constexpr WeightType vocabulary_type(WeightType type) {
  return type == WeightType::int4 ? WeightType::int8 : type;
}

namespace kernels {

constexpr std::size_t round_up(std::size_t value, std::size_t step) {
  return (value + step - 1) / step * step;
}

// Layout of a quantized type that panels keep as stored in files; null for other types.
constexpr const QuantFormat* quant_format(WeightType type) {
  return type < WeightType::q4_k || type >= WeightType::f8_e4m3
             ? nullptr
             : kQuantFormats[static_cast<std::size_t>(type) - static_cast<std::size_t>(WeightType::q4_k)];
}

// Whether panels of a type have a ScaledFormat, and the kind of its elements.
constexpr bool is_scaled(WeightType type) { return type >= WeightType::f8_e4m3; }
constexpr ScaledElement scaled_element(WeightType type) {
  return type == WeightType::f8_e4m3       ? ScaledElement::e4m3
         : type == WeightType::int8_scaled ? ScaledElement::bytes
         : type == WeightType::nf4         ? ScaledElement::nf4
                                           : ScaledElement::half_bytes;
}

// The places of the elements of a packed weight [out_features, in_features].
//
// Panels of 16 output features, one after the other. A matmul streams through a panel once, from beginning to
// end, and has its 16 results in one vector. Layout of a panel:
//   f32, f16: [in_features][16];
//   bf16: [in_features / 2][16][2], as used by products of bf16 pairs; 16 pairs are a matrix unit's tile;
//   int8: [in_features / 64] blocks of 2 groups x [8][16][4] bytes, an element + 128 each; then 2 x [16] f16
//         scales;
//   int4: [in_features / 64] blocks of [8][16][4] bytes, with an element + 8 of the first group of 32 in the
//         low half and one of the second group in the high half; then 2 x [16] f16 scales;
//   q4_k and other types of files: blocks of 64 columns in super-blocks of up to four; see QuantFormat.
//         Blocks and super-blocks are those of the file. A rank's columns may begin and end inside them: the
//         panel has all blocks that the columns touch, with the scales of their super-blocks. Other columns
//         of a block do not count, because activations are padded with zeros;
//   f8_e4m3, int8_scaled, int4_scaled, nf4: see ScaledFormat. A list of the columns' groups, if any, precedes
//         the panels.
// Incomplete panels and steps are padded with zeros.
//
// Leaves: if the sum of several ranks' results must not depend on the number of ranks, each rank has whole
// leaves of the input features, and the results of leaves are added exactly (see leaf_sum.h). With bf16, int8
// and int4, each leaf is padded to a multiple of 32 features, which is a tile or a group.
struct PackedLayout {
  static constexpr std::size_t kPanel = 16;                   // output features of a panel
  static constexpr std::size_t kTileDepth = 32;               // input features of a tile of bf16
  static constexpr std::size_t kGroup = 32;                   // elements that share a scale
  static constexpr std::size_t kBlock = 64;                   // elements of a block of two groups
  static constexpr std::size_t kScaleBytes = 2 * kPanel * 2;  // bytes of a block's scales

  WeightType type = WeightType::f32;
  std::size_t out_features = 0;
  std::size_t in_features = 0;
  // Whether products have the same bits regardless of other rows in the matmul.
  bool same_bits = false;
  std::size_t leaf = 0;  // input features; the last leaf may be incomplete. 0: no leaves
  // Types with a QuantFormat: the first column's place in a super-block of the file.
  std::size_t phase = 0;
  ScaledFormat scaled{};  // for types with a ScaledFormat

  std::size_t panels() const { return (out_features + kPanel - 1) / kPanel; }
  bool fills_leaves() const;
  // Whether rows of activations are used unchanged, except for zeros at the end.
  bool takes_whole_rows() const { return !fills_leaves() && front() == 0; }
  // Columns of the first block before the first input feature.
  std::size_t front() const { return quant_format(type) == nullptr ? 0 : phase % kBlock; }
  // The first block's place in its super-block.
  std::size_t first_block() const { return phase / kBlock; }
  // Features of a leaf, padded if necessary.
  std::size_t padded_leaf() const;
  // in_features, padded to a whole step.
  std::size_t padded_in_features() const;
  std::size_t panel_bytes() const { return bytes_of(padded_in_features()); }
  // f32, f16 and bf16: bytes from one leaf of a panel to the next.
  std::size_t leaf_bytes() const { return bytes_of(padded_leaf()); }
  std::size_t bytes() const { return list_bytes() + panels() * panel_bytes(); }
  std::size_t place_of_panel(std::size_t index) const { return list_bytes() + index * panel_bytes(); }
  bool has_column_groups() const { return is_scaled(type) && scaled.group == 0; }

 private:
  // Bytes of the list of the columns' groups, in whole cache lines.
  std::size_t list_bytes() const {
    return has_column_groups() ? round_up(in_features * sizeof(std::uint16_t), 64) : 0;
  }
  // Bytes of `columns` columns of a panel.
  std::size_t bytes_of(std::size_t columns) const;
};

// A packed weight in memory, [out_features, in_features].
struct PackedView {
  PackedLayout layout;
  const std::byte* data = nullptr;

  const std::byte* panel(std::size_t index) const { return data + layout.place_of_panel(index); }
  // [in_features], or null.
  const std::uint16_t* column_groups() const {
    return layout.has_column_groups() ? reinterpret_cast<const std::uint16_t*>(data) : nullptr;
  }
};

// Stores rows [first_row, first_row + rows.rows) of a weight at `data`, rounded to the weight's type.
// first_row must be a multiple of 16, and the rows must be whole panels or end with the matrix. Threads may
// pack different panels at the same time.
void pack_rows(const PackedLayout& layout, std::size_t first_row, const StoredRows& rows, std::byte* data);

// Rows that are already in groups of 32 elements, each with a scale.
struct GroupedRows {
  TensorView<std::int8_t> elements;  // [rows, in_features]; in_features is a multiple of 32
  TensorView<std::uint16_t> scales;  // [rows, in_features / 32], f16

  GroupedRows rows_from(std::size_t begin, std::size_t count) const {
    return {elements.rows_from(begin, count), scales.rows_from(begin, count)};
  }
};

// pack_rows for a weight of type int8, or of type int4 with elements from -8 to 7. Stores the groups
// unchanged.
void pack_groups(const PackedLayout& layout, std::size_t first_row, const GroupedRows& rows, std::byte* data);

// Rows of a type with a QuantFormat, as integers. The columns are those of the file's super-blocks that the
// weight's input features touch.
struct QuantizedRows {
  static constexpr std::size_t kColumns = 256;  // columns of a super-block

  std::size_t rows;
  std::size_t super_blocks;
  // [rows, super_blocks][256], before subtraction of `zero`; indices for types with a codebook.
  std::uint8_t* elements;
  // [rows, super_blocks][256 / group], scales of a byte or less; with half_bytes, the bytes also contain the
  // offsets.
  std::uint8_t* scales;
  std::uint8_t* offsets;
  // f16 and bf16: [rows, super_blocks][8 or 16] scales, each followed by its offset, if any. Types with zero
  // points: [rows, super_blocks][8] scales, with zero points in `offsets`; a larger group's are repeated for
  // every 32 columns. NVFP4: [rows, super_blocks] f32 in two halves, the low bits first. Other types: [rows,
  // super_blocks][1 or 2], the factors of scales and of offsets.
  std::uint16_t* halves;

  static constexpr std::size_t groups(const QuantFormat& format) { return kColumns / format.group; }
  static constexpr std::size_t halves_of(const QuantFormat& format) {
    if (format.has_zero_points()) return groups(format);
    if (format.scales == ScaleKind::e4m3) return 2;
    return (format.has_own_scales() ? groups(format) : 1) * (format.has_offsets ? 2 : 1);
  }
  QuantizedRows rows_from(const QuantFormat& format, std::size_t begin, std::size_t count) const {
    const std::size_t blocks = begin * super_blocks;
    return {count,
            super_blocks,
            place_in(elements, blocks * kColumns),
            place_in(scales, blocks * groups(format)),
            place_in(offsets, blocks * groups(format)),
            place_in(halves, blocks * halves_of(format))};
  }
};

// pack_rows for a weight with a QuantFormat. Stores the rows unchanged.
void pack_quantized(const PackedLayout& layout, std::size_t first_row, const QuantizedRows& rows,
                    std::byte* data);

// Writes one row as float32, [in_features].
void unpack_row(const PackedView& weight, std::size_t row, float* out);

}  // namespace kernels

}  // namespace tp
