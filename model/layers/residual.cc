#include "model/layers/residual.h"

#include "model/kernels/elementwise.h"

namespace tp {

void Residual::apply(const Norm& norm) {
  if (comm_ != nullptr) norm.apply_in_place(x_);
}

void Residual::add_all_reduced(PartialSum sum, const std::optional<Norm>& post_norm, float scale) {
  if (post_norm || scale != 1.0F) {
    const TensorView<float> whole = step_.workspace.take(x_.rows(), x_.columns());
    if (comm_ != nullptr) {
      all_reduce(*comm_, std::move(sum), whole);
      if (post_norm) post_norm->apply_in_place(whole);
      if (scale != 1.0F) kernels::scale(scale, whole);
      kernels::add(whole, x_);
    }
  } else if (comm_ != nullptr) {
    tp::add_all_reduced(*comm_, std::move(sum), x_);
  }
  frame_.clear();
}

}  // namespace tp
