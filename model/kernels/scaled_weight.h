// Weights that share scales over any blocks of rows and columns; see ScaledFormat.
#pragma once

#include "model/kernels/packed_weight.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace tp::kernels {

// Rows of a weight with a ScaledFormat, as integers.
struct ScaledRows {
  std::size_t rows;
  std::size_t columns;
  std::size_t groups;         // groups that the columns touch
  std::uint8_t* elements;     // [rows, columns], also for half_bytes and nf4
  std::uint32_t* scales;      // [rows, groups], the bits of the scale_type
  std::uint8_t* zero_points;  // [rows, groups]
  // [rows], index of each row's scale in its panel's scale_rows: equal to the row before, or one more
  const std::uint8_t* scale_rows;

  ScaledRows rows_from(std::size_t begin, std::size_t count) const {
    return {count,
            columns,
            groups,
            place_in(elements, begin * columns),
            place_in(scales, begin * groups),
            place_in(zero_points, begin * groups),
            place_in(scale_rows, begin)};
  }
};

// pack_rows for a weight with a ScaledFormat. Stores the rows unchanged. If an e4m3 element is NaN, its scale
// becomes NaN.
void pack_scaled(const PackedLayout& layout, std::size_t first_row, const ScaledRows& rows, std::byte* data);

// Stores the groups of the weight's columns, [in_features], if its format has a list.
void set_column_groups(const PackedLayout& layout, std::span<const std::uint16_t> groups, std::byte* data);

// See unpack_row.
void unpack_scaled_row(const PackedView& weight, std::size_t row, float* out);

}  // namespace tp::kernels
