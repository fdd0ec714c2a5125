#include "model/weights/local_weight.h"

#include "model/kernels/elementwise.h"

#include <algorithm>

namespace tp {

LocalWeight::LocalWeight(WeightType type, std::size_t out_features, std::size_t in_features)
    : layout_{type, out_features, in_features}, elements_(layout_.bytes(), "weights") {}

TensorView<float> LocalWeight::multiply(TensorView<const float> x, Workspace& workspace) const {
  const TensorView<float> y = workspace.take(x.rows(), out_features());
  const Workspace::Frame frame(workspace);
  const TensorView<float> scratch =
      workspace.take(1, kernels::matmul_scratch(type(), x.rows(), in_features()));
  multiply_into(x, scratch, y);
  return y;
}

TensorView<float> LocalWeight::multiply_gated(TensorView<const float> x, kernels::Activation activation,
                                              Workspace& workspace) const {
  const TensorView<float> y = workspace.take(x.rows(), out_features() / 2);
  const Workspace::Frame frame(workspace);
  if (kernels::can_gate(layout_, x.rows())) {
    const TensorView<float> scratch =
        workspace.take(1, kernels::matmul_scratch(type(), x.rows(), in_features()));
    kernels::matmul_gated(x, {layout_, elements_.data()}, activation, scratch, y);
  } else {
    kernels::activate_and_multiply(activation, multiply(x, workspace), y);
  }
  return y;
}

TensorView<float> LocalWeight::multiply(const kernels::TiledRows& x, Workspace& workspace) const {
  const TensorView<float> y = workspace.take(x.rows, out_features());
  const Workspace::Frame frame(workspace);
  const TensorView<float> scratch = workspace.take(1, kernels::matmul_scratch(type(), x.rows, in_features()));
  kernels::matmul(x, {layout_, elements_.data()}, scratch, y);
  return y;
}

bool LocalWeight::can_gate_to_tiles(std::size_t tokens) const {
  constexpr std::size_t kTileFeatures = 32;
  return kernels::can_gate(layout_, tokens) && out_features() % (2 * kTileFeatures) == 0;
}

kernels::TiledRows LocalWeight::multiply_gated_to_tiles(TensorView<const float> x,
                                                        kernels::Activation activation,
                                                        Workspace& workspace) const {
  const std::size_t size = out_features() / 2;
  const TensorView<float> words = workspace.take(1, kernels::tiled_words(x.rows(), size));
  const kernels::TiledRows y{reinterpret_cast<std::uint32_t*>(words.data()), x.rows(), size};
  const Workspace::Frame frame(workspace);
  const TensorView<float> scratch =
      workspace.take(1, kernels::matmul_scratch(type(), x.rows(), in_features()));
  kernels::matmul_gated(x, {layout_, elements_.data()}, activation, scratch, y);
  return y;
}

std::size_t largest_matmul_scratch(std::size_t tokens, std::size_t in_features) {
  std::size_t scratch = 0;
  for (const WeightType type :
       {WeightType::f32, WeightType::f16, WeightType::bf16, WeightType::int8, WeightType::int4}) {
    scratch = std::max(scratch, kernels::matmul_scratch(type, tokens, in_features));
  }
  return scratch;
}

std::size_t multiply_workspace(std::size_t tokens, std::size_t out_features, std::size_t in_features) {
  return Workspace::footprint(tokens, out_features) +
         Workspace::footprint(1, largest_matmul_scratch(tokens, in_features));
}

std::size_t multiply_gated_workspace(std::size_t tokens, std::size_t out_features, std::size_t in_features) {
  return Workspace::footprint(tokens, out_features / 2) +
         multiply_workspace(tokens, out_features, in_features);
}

}  // namespace tp
