#include "model/layers/blocks/altup.h"

#include "model/kernels/elementwise.h"
#include "model/kernels/experts.h"
#include "model/kernels/streams.h"

#include <algorithm>

namespace tp {
AltUp::AltUp(WeightLoader& loader, const AltUpSpec& spec, std::size_t hidden_size, const AltUpNames& names)
    : streams_(spec.streams),
      hidden_size_(hidden_size),
      norm_(loader, names.router_norm, hidden_size, spec.norm),
      router_(loader.whole_weight(
          {names.modality_router, {streams_, hidden_size}, "altup_num_inputs", "hidden_size"})),
      prediction_(loader.whole_weight({names.prediction_coefs,
                                       {streams_ * streams_, streams_},
                                       "altup_num_inputs^2",
                                       "altup_num_inputs"})),
      correction_(loader.whole_weight(
          {names.correction_coefs, {streams_, streams_}, "altup_num_inputs", "altup_num_inputs"})) {}

TensorView<float> AltUp::coefficients(TensorView<const float> x, const Buffer<float>& matrix,
                                      std::size_t rows, const StepContext& step) const {
  const TensorView<float> result = step.workspace.take(x.rows(), rows);
  const Workspace::Frame frame(step.workspace);
  const TensorView<float> modalities = step.workspace.take(x.rows(), streams_);
  kernels::router_logits(norm_(x, step.workspace), {router_.data(), streams_, hidden_size_}, modalities);
  kernels::scale(1.0F / static_cast<float>(hidden_size_), modalities);
  kernels::softcap(1.0F, modalities);
  kernels::router_logits(modalities, {matrix.data(), rows, streams_}, result);
  return result;
}

TensorView<float> AltUp::enter(TensorView<float> streams, const StepContext& step) const {
  const TensorView<float> one = step.workspace.take(streams.rows(), hidden_size_);
  const Workspace::Frame frame(step.workspace);
  const TensorView<float> first = streams.columns_from(0, hidden_size_);
  kernels::mix_streams(coefficients(first, prediction_, streams_ * streams_, step), hidden_size_, streams);
  for (std::size_t row = 0; row < one.rows() && !one.empty(); ++row)
    std::copy_n(first.row(row), hidden_size_, one.row(row));
  return one;
}

void AltUp::leave(TensorView<const float> y, const StepContext& step, TensorView<float> streams) const {
  const Workspace::Frame frame(step.workspace);
  kernels::correct_streams(coefficients(y, correction_, streams_, step), y, streams);
}

}  // namespace tp
