// The check that each WeightSource makes before writing to a caller's memory.
#pragma once

#include "parallel/shard/slice.h"
#include "tp/tensor.h"

#include <string>

namespace tp {

// Throws CheckpointError unless the slice is inside the shape and `out` has the slice's rows and columns.
void check_slice(const std::string& name, MatrixShape shape, const TensorSlice& slice, TensorView<float> out);

}  // namespace tp
