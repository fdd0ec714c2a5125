// Learned positions that are laid out in a table.
#pragma once

#include "model/config/spec.h"
#include "model/memory/buffer.h"
#include "model/weights/weight_loader.h"

#include <cstddef>
#include <string>

namespace tp {

// The vector of position i * columns + j is that of row i and behind it that of column j. They are small: a
// rank has both tables, or none.
class AxialPositions {
 public:
  // Throws CheckpointError. The tables' names are `name` with 0 and 1 behind it.
  AxialPositions(WeightLoader& loader, const std::string& name, const AxialPositionsSpec& spec);

  // Adds a position's vector to `out`, [row_size + column_size].
  void add(std::size_t position, float* out) const;

 private:
  AxialPositionsSpec spec_;
  Buffer<float> rows_;     // [rows, row_size]
  Buffer<float> columns_;  // [columns, column_size]
};

}  // namespace tp
