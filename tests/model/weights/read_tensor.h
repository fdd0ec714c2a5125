#pragma once

#include "model/weights/source/weight_source.h"

#include <string>
#include <vector>

namespace tp::test {

// Returns a part of a tensor of this shape.
inline std::vector<float> read_slice(const WeightSource& source, const std::string& name, MatrixShape shape,
                                     const TensorSlice& slice) {
  std::vector<float> values(slice.size());
  source.read(name, shape, slice, {values.data(), slice.rows.size(), slice.columns.size()});
  return values;
}

inline std::vector<float> read_whole(const WeightSource& source, const std::string& name, MatrixShape shape) {
  return read_slice(source, name, shape, TensorSlice::whole(shape));
}

}  // namespace tp::test
