#include "model/memory/workspace.h"

#include "tp/internal/require.h"

namespace tp {

TensorView<float> Workspace::take(std::size_t rows, std::size_t columns) {
  constexpr std::size_t kCacheLine = 16;  // floats
  const std::size_t floats = (rows * columns + kCacheLine - 1) / kCacheLine * kCacheLine;
  require<ConfigError>(floats <= capacity_ - used_,
                       "a step needs a workspace tensor of [{}, {}], but {} of {} floats are in use; "
                       "the step has more tokens than the engine was made for",
                       rows, columns, used_, capacity_);
  float* const data = memory_.data() == nullptr ? nullptr : memory_.data() + used_;
  used_ += floats;
  peak_ = std::max(peak_, used_);
  return {data, rows, columns};
}

TensorView<double> Workspace::take_doubles(std::size_t rows, std::size_t columns) {
  const TensorView<float> memory = take(rows, columns * (sizeof(double) / sizeof(float)));
  return {reinterpret_cast<double*>(memory.data()), rows, columns};
}

}  // namespace tp
