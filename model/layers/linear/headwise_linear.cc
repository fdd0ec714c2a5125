#include "model/layers/linear/headwise_linear.h"

#include "model/kernels/matmul.h"
#include "tp/internal/threads.h"

#include <omp.h>

namespace tp {

void HeadwiseLinear::operator()(TensorView<const float> x, TensorView<float> y,
                                const StepContext& step) const {
  multiply(x, y, step);
  adapters_.add_to(x, step, y);
}

void HeadwiseLinear::multiply(TensorView<const float> x, TensorView<float> y, const StepContext& step) const {
  const LocalWeight& first = weights_.front();
  const std::size_t heads = weights_.size();
  const Workspace::Frame frame(step.workspace);
  const TensorView<float> scratch = step.workspace.take_per_thread(first.scratch_floats(x.rows()));

  const auto multiply = [&](std::size_t head) {
    const auto thread = static_cast<std::size_t>(omp_get_thread_num());
    weights_[head].multiply_into(x.columns_from(head * first.in_features(), first.in_features()),
                                 scratch.rows_from(thread, 1),
                                 y.columns_from(head * (y.columns() / heads), first.out_features()));
  };
  const std::size_t work = x.rows() * first.out_features() * first.in_features();  // multiplications per head
  if (heads < scratch.rows() && work >= kMinParallelWork) {
    // With fewer heads than threads, all threads share each matmul.
    for (std::size_t head = 0; head < heads; ++head) multiply(head);
    return;
  }
  for_thread_parts(heads, heads * work, [&](std::size_t begin, std::size_t end) {
    for (std::size_t head = begin; head < end; ++head) multiply(head);
  });
}

}  // namespace tp
