#include "model/layers/blocks/altup_block.h"

#include "model/kernels/elementwise.h"

namespace tp {
namespace {

BlockSpec without_layer_input(BlockSpec spec) {
  spec.layer_input.reset();
  return spec;
}

}  // namespace

AltUpBlock::AltUpBlock(WeightLoader& loader, const BlockSpec& spec, std::size_t hidden_size,
                       const BlockNames& names)
    : altup_(loader, spec.altup.value(), hidden_size, names.altup),
      block_(loader, without_layer_input(spec), hidden_size, names) {
  if (!spec.layer_input) return;
  output_scale_ = loader.whole_vector(names.altup.correct_output_scale, hidden_size, "hidden_size");
  layer_input_.emplace(loader, *spec.layer_input, hidden_size, names.layer_input);
}

void AltUpBlock::operator()(Residual& x, const StepContext& step, const kernels::PagedCache& cache) const {
  x.at(altup_, [&](Residual& one) { block_(one, step, cache); });
  if (!layer_input_) return;
  const TensorView<float> first = step.workspace.take(x.rows().rows(), output_scale_.size());
  kernels::clear(first);
  kernels::add_products(output_scale_, x.stream(0), first);
  const TensorView<float> input = (*layer_input_)(first, step);
  layer_input_->norm()->apply_in_place(input);
  x.add_to_streams(1, input);
}

}  // namespace tp
