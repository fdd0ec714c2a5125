// This rank's parts of an adapter's matrices, in memory.
#pragma once

#include "model/weights/adapters/adapter.h"
#include "model/weights/local_weight.h"
#include "model/weights/weight_loader.h"
#include "parallel/shard/shard.h"
#include "parallel/shard/slice.h"

#include <cstddef>
#include <vector>

namespace tp {

// The factors of an adapter for a layer, or null. Throws CheckpointError if they do not have its shape.
const AdapterLayer* factors_of(WeightLoader& loader, const Adapter& adapter, const StoredLayer& layer);

// Rows of one or several matrices with the same number of columns, stacked vertically, as floats. Has no
// memory if the loader loads only shapes.
class StackedRows {
 public:
  StackedRows(const WeightLoader& loader, std::size_t columns) : columns_(columns), reads_(loader.reads()) {}

  // Reads a slice with all columns of the stack. Throws CheckpointError if it has NaN or infinity.
  void append(const AdapterMatrix& matrix, const TensorSlice& slice);
  std::size_t rows() const { return rows_; }
  // [rows, columns]; empty if only shapes are loaded.
  const std::vector<float>& values() const { return values_; }

  // Some columns of all rows. `leaf`: see PackedLayout.
  LocalWeight packed(WeightLoader& loader, Range columns, std::size_t leaf = 0) const;

 private:
  std::size_t columns_;
  bool reads_;
  WeightType type_ = WeightType::f32;
  std::size_t rows_ = 0;
  std::vector<float> values_;
};

// Rows of a matrix that replaces a weight, read a few at a time. Throws like StackedRows::append.
LocalWeight load_saved_rows(WeightLoader& loader, const AdapterMatrix& matrix, Range rows);

}  // namespace tp
