// Describes which elements of a stored matrix share scales.
#pragma once

#include "model/kernels/simd/pack/scaled_format.h"
#include "parallel/shard/shard.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace tp {

// For a tensor that is kept in memory as a type with a ScaledFormat.
struct StoredScales {
  kernels::ScaleType type = kernels::ScaleType::f32;
  bool has_zero_points = false;
  std::size_t row_block = 1;     // rows that share a scale
  std::size_t column_block = 1;  // columns that share a scale; 0: see column_groups
  std::size_t groups = 1;        // groups per row
  std::span<const std::uint16_t> column_groups{};

  // The groups that `columns` touches; all groups if there is a list.
  Range groups_of(Range columns) const {
    if (columns.empty()) return {0, 0};
    if (column_block == 0) return {0, groups};
    return {columns.begin / column_block, (columns.end - 1) / column_block + 1};
  }
  std::size_t group_of(std::size_t column) const {
    return column_block == 0 ? column_groups[column] : column / column_block;
  }
  // Whether the types and the column groups of both are equal.
  bool has_groups_of(const StoredScales& other) const {
    return type == other.type && has_zero_points == other.has_zero_points &&
           column_block == other.column_block && groups == other.groups &&
           std::equal(column_groups.begin(), column_groups.end(), other.column_groups.begin(),
                      other.column_groups.end());
  }
};

}  // namespace tp
