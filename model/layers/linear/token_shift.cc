#include "model/layers/linear/token_shift.h"

#include "model/kernels/recurrent_inputs.h"
#include "model/layers/linear/recurrent_runs.h"

#include <algorithm>
#include <optional>

namespace tp {

TokenShift::TokenShift(std::size_t size) : size_(size), weight_(2 * size, 1.0F) {
  std::fill_n(weight_.begin() + static_cast<std::ptrdiff_t>(size), size, -1.0F);
}

TensorView<float> TokenShift::operator()(TensorView<const float> x, const StepContext& step) const {
  const TensorView<float> shift = step.workspace.take(x.rows(), size_);
  if (!x.empty())
    kernels::causal_convolution(x, TensorView<const float>(weight_.data(), 2, size_), {}, std::nullopt,
                                RecurrentRuns(step).all(), shift);
  return shift;
}

std::size_t TokenShift::state_floats() const { return kernels::padded(size_); }

}  // namespace tp
