// Learned position vectors. Positions form a grid; a position's vector concatenates the vectors of its row
// and column.
#pragma once

#include "model/config/spec.h"
#include "model/memory/buffer.h"
#include "model/weights/weight_loader.h"

#include <cstddef>
#include <string>

namespace tp {

// Position i * columns + j has the vectors of row i and column j. The tables are too small to be worth
// dividing among ranks.
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
