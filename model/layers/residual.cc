#include "model/layers/residual.h"

#include "model/kernels/elementwise.h"

namespace tp {

void Residual::add_all_reduced(PartialSum sum, const std::optional<Norm>& post_norm) {
  if (comm_ != nullptr && post_norm) {
    const TensorView<float> whole = all_reduce(*comm_, std::move(sum));
    post_norm->apply_in_place(whole);
    kernels::add(whole, x_);
  } else if (comm_ != nullptr) {
    tp::add_all_reduced(*comm_, std::move(sum), x_);
  }
  frame_.clear();
}

}  // namespace tp
