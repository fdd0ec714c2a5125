#include "model/memory/workspace.h"

#include "tp/internal/require.h"

namespace tp {

TensorView<float> Workspace::take(std::size_t rows, std::size_t columns) {
  const std::size_t floats = footprint(rows, columns);
  require<ConfigError>(floats <= memory_.size() - used_,
                       "a step needs a workspace tensor of [{}, {}], but {} of {} floats are in use; "
                       "the step has more tokens than the engine was made for",
                       rows, columns, used_, memory_.size());
  const TensorView<float> view(memory_.data() + used_, rows, columns);
  used_ += floats;
  peak_ = std::max(peak_, used_);
  return view;
}

}  // namespace tp
