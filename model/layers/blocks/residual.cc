#include "model/layers/blocks/residual.h"

#include "model/kernels/elementwise.h"

#include <algorithm>

namespace tp {

TensorView<float> Residual::begin(Communicator* comm, PartialSum embedding, const std::optional<Norm>& norm,
                                  const ColumnParallelLinear* projection, std::size_t streams,
                                  std::size_t weights, const StepContext& step) {
  const TensorView<float> x =
      comm != nullptr ? all_reduce(*comm, std::move(embedding)) : shape_of(embedding, step);
  if (norm && comm != nullptr) norm->apply_in_place(x);
  const TensorView<float> stream = projection != nullptr ? (*projection)(x, step) : x;
  if (streams == 1) return stream;
  const TensorView<float> all = step.workspace.take(x.rows(), streams * stream.columns() + weights);
  for (std::size_t row = 0; row < all.rows() && !all.empty(); ++row) {
    float* to = all.row(row);
    for (std::size_t i = 0; i < streams; ++i) to = std::copy_n(stream.row(row), stream.columns(), to);
    for (std::size_t i = 0; i < weights; ++i) *to++ = i == 0 ? 1.0F : 0.0F;
  }
  return all;
}

void Residual::apply(const Norm& norm) {
  if (comm_ != nullptr) norm.apply_in_place(x_);
}

void Residual::add_all_reduced(PartialSum sum, std::size_t stream) {
  const TensorView<float> whole = step_.workspace.take(x_.rows(), stream_size_);
  if (comm_ == nullptr) {
    step_.count_sum(sum);
  } else {
    all_reduce(*comm_, std::move(sum), whole);
    kernels::add(whole, this->stream(stream));
  }
  frame_.clear();
}

void Residual::add_to_streams(std::size_t first, TensorView<const float> whole) {
  for (std::size_t i = first; i < streams_; ++i) kernels::add(whole, stream(i));
  frame_.clear();
}

void Residual::add_all_reduced(PartialSum sum, const std::optional<Norm>& post_norm, float scale) {
  if (post_norm || scale != 1.0F) return add(reduced(std::move(sum)), post_norm, scale);
  if (comm_ == nullptr) {
    step_.count_sum(sum);
  } else {
    tp::add_all_reduced(*comm_, std::move(sum), x_);
  }
  frame_.clear();
}

TensorView<float> Residual::reduced(PartialSum sum, const std::optional<Norm>& norm) const {
  const TensorView<float> whole = step_.workspace.take(x_.rows(), stream_size_);
  if (comm_ == nullptr) {
    step_.count_sum(sum);
    return whole;
  }
  all_reduce(*comm_, std::move(sum), whole);
  if (norm) norm->apply_in_place(whole);
  return whole;
}

void Residual::add(TensorView<float> whole, const std::optional<Norm>& post_norm, float scale) {
  if (comm_ != nullptr) {
    if (post_norm) post_norm->apply_in_place(whole);
    if (scale != 1.0F) kernels::scale(scale, whole);
    kernels::add(whole, x_);
  }
  frame_.clear();
}

void Residual::scale(float factor) {
  if (comm_ != nullptr) kernels::scale(factor, x_);
}

void Residual::scale_row(std::size_t row, float factor) {
  if (comm_ != nullptr) kernels::scale(factor, x_.rows_from(row, 1));
}

}  // namespace tp
