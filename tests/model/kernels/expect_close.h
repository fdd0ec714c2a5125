// Compares a kernel's float32 result with its double-precision reference.
#pragma once

#include "tests/reference/matrix.h"
#include "tp/tensor.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

namespace tp::test {

// Returns the largest difference of an element, or infinity for NaN.
inline double largest_difference(TensorView<const float> found, const reference::Matrix& expected) {
  EXPECT_EQ(found.rows(), expected.rows);
  EXPECT_EQ(found.columns(), expected.columns);
  double largest = 0.0;
  for (std::size_t r = 0; r < expected.rows; ++r) {
    for (std::size_t c = 0; c < expected.columns; ++c) {
      const double difference = std::abs(found(r, c) - expected(r, c));
      largest = std::isnan(difference) ? INFINITY : std::max(largest, difference);
    }
  }
  return largest;
}

}  // namespace tp::test

#define EXPECT_CLOSE(found, expected, tolerance) \
  EXPECT_LE(::tp::test::largest_difference((found), (expected)), (tolerance))
