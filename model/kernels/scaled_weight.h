// Weights whose scales are shared by any blocks of rows and columns, see ScaledFormat.
#pragma once

#include "model/kernels/packed_weight.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace tp::kernels {

// Rows of such a weight, as integers.
struct ScaledRows {
  std::size_t rows;
  std::size_t columns;
  std::size_t groups;         // that the columns touch
  std::uint8_t* elements;     // [rows, columns], of half_bytes one each
  std::uint32_t* scales;      // [rows, groups], the bits of the scale_type
  std::uint8_t* zero_points;  // [rows, groups]
  // [rows], which of a panel's scale_rows each has, those before it in the panel or one more
  const std::uint8_t* scale_rows;

  ScaledRows rows_from(std::size_t begin, std::size_t count) const {
    return {count,
            columns,
            groups,
            elements + begin * columns,
            scales + begin * groups,
            zero_points + begin * groups,
            scale_rows + begin};
  }
};

// pack_rows for a weight of such a type: takes the rows over as they are. A scale is NaN where e4m3 elements
// that it is for are.
void pack_scaled(const PackedLayout& layout, std::size_t first_row, const ScaledRows& rows, std::byte* data);

// Stores the groups of the weight's columns, [in_features], if its format has a list.
void set_column_groups(const PackedLayout& layout, std::span<const std::uint16_t> groups, std::byte* data);

// See unpack_row.
void unpack_scaled_row(const PackedView& weight, std::size_t row, float* out);

}  // namespace tp::kernels
