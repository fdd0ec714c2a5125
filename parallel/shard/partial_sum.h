#pragma once

#include "parallel/shard/sums.h"
#include "tp/internal/threads.h"
#include "tp/tensor.h"

#include <cassert>
#include <cstddef>
#include <span>
#include <utility>

namespace tp {

class Communicator;

// This rank's contribution to a row-parallel layer's result: an addend, [tokens, hidden_size].
//
// Only all_reduce and add_all_reduced turn a PartialSum into a tensor. A forgotten all-reduce would go
// unnoticed on one rank and give garbage on two; with this type, it does not compile. A PartialSum is a view
// of workspace memory. It is move-only, so that it is summed exactly once.
//
// Addends are floats, or doubles if sums must not depend on the number of ranks. Sums of doubles are exact
// while their magnitudes stay below `exact_below`. The default is for sums of leaves, and is half of the
// actual limit for such sums (see kernels::matmul).
class [[nodiscard]] PartialSum {
 public:
  explicit PartialSum(TensorView<float> addend) : floats_(addend) {}
  static constexpr double kExactBelow = 4194304.0;  // 2^22
  explicit PartialSum(TensorView<double> addend, double exact_below = kExactBelow)
      : doubles_(addend), exact_below_(exact_below) {}
  PartialSum(PartialSum&& other) noexcept
      : floats_(std::exchange(other.floats_, {})),
        doubles_(std::exchange(other.doubles_, {})),
        exact_below_(other.exact_below_) {}
  PartialSum& operator=(PartialSum&&) = delete;
  PartialSum(const PartialSum&) = delete;
  PartialSum& operator=(const PartialSum&) = delete;

  // Adds another layer's addend of the same shape and type, so that one all-reduce serves both layers.
  PartialSum& operator+=(PartialSum other) {
    assert(has_doubles() == other.has_doubles());
    if (has_doubles())
      add(doubles_, other.doubles_);
    else
      add(floats_, other.floats_);
    return *this;
  }

  // Adds another addend of the same type, [rows.size(), hidden_size], to the given rows.
  void add_to_rows(PartialSum other, std::span<const std::size_t> rows) {
    assert(has_doubles() == other.has_doubles());
    if (has_doubles())
      add_rows(doubles_, other.doubles_, rows);
    else
      add_rows(floats_, other.floats_, rows);
  }

  std::size_t bytes() const {
    return has_doubles() ? doubles_.size() * sizeof(double) : floats_.size() * sizeof(float);
  }

  // A view with this shape but no data.
  TensorView<float> shape() const {
    return has_doubles() ? TensorView<float>(nullptr, doubles_.rows(), doubles_.columns())
                         : TensorView<float>(nullptr, floats_.rows(), floats_.columns());
  }

 private:
  friend TensorView<float> all_reduce(Communicator& comm, PartialSum partial);
  friend void all_reduce(Communicator& comm, PartialSum partial, TensorView<float> out);
  friend void add_all_reduced(Communicator& comm, PartialSum partial, TensorView<float> x);

  bool has_doubles() const { return doubles_.columns() != 0; }

  template <class T>
  static void add(TensorView<T> to, TensorView<T> addend) {
    if (to.empty()) return;
    const bool together = to.contiguous() && addend.contiguous();
    const std::size_t rows = together ? 1 : to.rows();
    for (std::size_t row = 0; row < rows; ++row) {
      const T* const addends[] = {to.row(row), addend.row(row)};
      sum_of(std::span<const T* const>(addends), together ? to.size() : to.columns(), to.row(row));
    }
  }

  template <class T>
  static void add_rows(TensorView<T> to, TensorView<T> addend, std::span<const std::size_t> rows) {
    if (to.empty()) return;
    for_thread_parts(rows.size(), addend.size(), [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) add_row(addend.row(i), to.columns(), to.row(rows[i]));
    });
  }

  TensorView<float> floats_;
  TensorView<double> doubles_;  // used instead of floats_ if addends are doubles
  double exact_below_ = kExactBelow;
};

}  // namespace tp
