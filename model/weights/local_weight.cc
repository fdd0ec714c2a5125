#include "model/weights/local_weight.h"

namespace tp {

TensorView<float> LocalWeight::multiply(TensorView<const float> x, Workspace& workspace) const {
  const TensorView<float> y = workspace.take(x.rows(), out_features());
  const Workspace::Frame frame(workspace);
  const TensorView<float> scratch = workspace.take(1, scratch_floats(x.rows()));
  multiply_into(x, scratch, y);
  return y;
}

TensorView<float> LocalWeight::multiply_gated(TensorView<const float> x, kernels::Activation activation,
                                              Workspace& workspace) const {
  const TensorView<float> y = workspace.take(x.rows(), out_features() / 2);
  const Workspace::Frame frame(workspace);
  const TensorView<float> scratch = workspace.take(1, kernels::matmul_gated_scratch(layout_, x.rows()));
  kernels::matmul_gated(x, {layout_, elements_.data()}, activation, scratch, y);
  return y;
}

TensorView<float> LocalWeight::multiply(const kernels::TiledRows& x, Workspace& workspace) const {
  const TensorView<float> y = workspace.take(x.rows, out_features());
  const Workspace::Frame frame(workspace);
  const TensorView<float> scratch = workspace.take(1, scratch_floats(x.rows));
  kernels::matmul(x, {layout_, elements_.data()}, scratch, y);
  return y;
}

void LocalWeight::multiply_leaves(TensorView<const float> x, Workspace& workspace,
                                  TensorView<double> y) const {
  const Workspace::Frame frame(workspace);
  kernels::matmul(x, {layout_, elements_.data()}, workspace.take(1, scratch_floats(x.rows())), y);
}

void LocalWeight::multiply_leaves(const kernels::TiledRows& x, Workspace& workspace,
                                  TensorView<double> y) const {
  const Workspace::Frame frame(workspace);
  kernels::matmul(x, {layout_, elements_.data()}, workspace.take(1, scratch_floats(x.rows)), y);
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
  const TensorView<float> scratch = workspace.take(1, scratch_floats(x.rows()));
  kernels::matmul_gated(x, {layout_, elements_.data()}, activation, scratch, y);
  return y;
}

}  // namespace tp
