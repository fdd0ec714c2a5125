// A type of its own for values that still have to be summed over ranks.
#pragma once

#include "parallel/sums.h"
#include "tp/tensor.h"

#include <cstddef>
#include <utility>

namespace tp {

class Communicator;

// This rank's addend of a row-parallel layer's result, [tokens, hidden_size].
//
// Only all_reduce and add_all_reduced turn it into a tensor. A forgotten all-reduce goes unnoticed on one
// rank and gives garbage on two; with this type it does not compile. It views memory of the workspace and is
// move-only, so that it is summed exactly once.
class [[nodiscard]] PartialSum {
 public:
  explicit PartialSum(TensorView<float> addend) : addend_(addend) {}
  PartialSum(PartialSum&& other) noexcept : addend_(std::exchange(other.addend_, {})) {}
  PartialSum& operator=(PartialSum&&) = delete;
  PartialSum(const PartialSum&) = delete;
  PartialSum& operator=(const PartialSum&) = delete;

  // Adds the results of two layers, [tokens, hidden_size] each, so that they need only one all-reduce.
  PartialSum& operator+=(PartialSum other) {
    if (addend_.empty()) return *this;
    const bool together = addend_.contiguous() && other.addend_.contiguous();
    const std::size_t rows = together ? 1 : addend_.rows();
    for (std::size_t row = 0; row < rows; ++row) {
      const float* const addends[] = {addend_.row(row), other.addend_.row(row)};
      sum_of(addends, together ? addend_.size() : addend_.columns(), addend_.row(row));
    }
    return *this;
  }

  // Of what is missing of it there is only the shape.
  TensorView<float> shape() const { return {nullptr, addend_.rows(), addend_.columns()}; }

 private:
  friend TensorView<float> all_reduce(Communicator& comm, PartialSum partial);
  friend void add_all_reduced(Communicator& comm, PartialSum partial, TensorView<float> x);

  TensorView<float> addend_;
};

}  // namespace tp
