#include "model/layers/feed_forward/layer_input.h"

#include "model/kernels/elementwise.h"
#include "model/kernels/streams.h"

namespace tp {

LayerInput::LayerInput(WeightLoader& loader, const LayerInputSpec& spec, std::size_t hidden_size,
                       const LayerInputNames& names)
    : activation_(spec.activation),
      gate_(whole_layer(
          loader, {names.gate, {spec.size, hidden_size}, "hidden_size_per_layer_input", "hidden_size"})),
      projection_(whole_layer(
          loader,
          {names.projection, {hidden_size, spec.size}, "hidden_size", "hidden_size_per_layer_input"})),
      norm_(Norm(loader, names.norm, hidden_size, spec.norm)) {}

TensorView<float> LayerInput::operator()(TensorView<const float> x, const StepContext& step) const {
  const TensorView<float> gate = gate_(x, step);  // [tokens, size]
  const TensorView<float> input = step.workspace.take(gate.rows(), gate.columns());
  kernels::copy_rows(step.layer_input, input);
  kernels::multiply_activated(activation_, gate, input);
  return projection_(input, step);
}

}  // namespace tp
