#include "model/memory/workspace.h"

#include "tp/internal/require.h"

#include <cassert>

#include <omp.h>

namespace tp {

TensorView<float> Workspace::take(std::size_t rows, std::size_t columns) {
  const std::size_t floats = (rows * columns + kAlignment - 1) / kAlignment * kAlignment;
  require<ConfigError>(floats <= capacity_ - used_,
                       "a step needs a workspace tensor of [{}, {}], but {} of {} floats are in use; "
                       "the step has more tokens than the engine was made for",
                       rows, columns, used_, capacity_);
  float* const data = data_ == nullptr ? nullptr : data_ + used_;
  used_ += floats;
  peak_ = std::max(peak_, used_);
  return {data, rows, columns};
}

std::array<Workspace, 2> Workspace::halves() const {
  assert(used_ == 0);
  const std::size_t floats = capacity_ / 2 / kAlignment * kAlignment;
  return {Workspace(data_, floats), Workspace(data_ + floats, floats)};
}

TensorView<double> Workspace::take_doubles(std::size_t rows, std::size_t columns) {
  const TensorView<float> memory = take(rows, columns * (sizeof(double) / sizeof(float)));
  return {reinterpret_cast<double*>(memory.data()), rows, columns};
}

TensorView<float> Workspace::take_per_thread(std::size_t columns) {
  return take(static_cast<std::size_t>(omp_get_max_threads()), columns);
}

}  // namespace tp
