// Loads and stores vectors of which only the first elements are in memory, for simd/*.cc.
#pragma once

#include "model/kernels/simd/vector/vector.h"

namespace tp::kernels {
namespace {

// Loads `count` floats, padded with zeros to a vector.
inline Vector load_some(const float* from, std::size_t count) {
  if (count >= kLanes) return load(from);
  float values[kLanes] = {};
  for (std::size_t i = 0; i < count; ++i) values[i] = from[i];
  return load(values);
}
inline void store_some(const Vector& from, std::size_t count, float* to) {
  if (count >= kLanes) return store(from, to);
  float values[kLanes];
  store(from, values);
  for (std::size_t i = 0; i < count; ++i) to[i] = values[i];
}

}  // namespace
}  // namespace tp::kernels
