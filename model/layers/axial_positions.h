// Learned position vectors, each composed of a row vector and a column vector of a grid.
#pragma once

#include "model/config/spec.h"
#include "model/memory/buffer.h"
#include "model/weights/weight_loader.h"

#include <cstddef>
#include <string>

namespace tp {

// The vector of position i * columns + j is the vector of row i, followed by the vector of column j. The
// tables are small, so ranks do not divide them.
class AxialPositions {
 public:
  // The tables are stored as `name` + "0" and `name` + "1". Throws CheckpointError.
  AxialPositions(WeightLoader& loader, const std::string& name, const AxialPositionsSpec& spec);

  // Adds a position's vector to `out`, [row_size + column_size].
  void add(std::size_t position, float* out) const;

 private:
  AxialPositionsSpec spec_;
  Buffer<float> rows_;     // [rows, row_size]
  Buffer<float> columns_;  // [columns, column_size]
};

}  // namespace tp
