#include "model/layers/altup_projections.h"

#include "model/kernels/elementwise.h"
#include "model/kernels/streams.h"

#include <fmt/format.h>

namespace tp {
namespace {

constexpr float kMinSquare = 1e-5F;  // like the original code

}  // namespace

AltUpProjections::AltUpProjections(WeightLoader& loader, const AltUpSpec& spec, std::size_t hidden_size,
                                   const AltUpStreamNames& names) {
  const auto load = [&](const std::string& prefix, std::vector<ColumnParallelLinear>& layers) {
    for (std::size_t i = 0; i + 1 < spec.streams; ++i)
      layers.push_back(whole_layer(
          loader,
          {fmt::format("{}.{}", prefix, i), {hidden_size, hidden_size}, "hidden_size", "hidden_size"}));
  };
  load(names.projections, begin_);
  load(names.unembed_projections, end_);
}

void AltUpProjections::begin(Residual& x, const StepContext& step) const {
  const TensorView<float> first = x.stream(0);
  for (std::size_t i = 0; i < begin_.size(); ++i) {
    const Workspace::Frame frame(step.workspace);
    const TensorView<float> projected = begin_[i](first, step);
    kernels::match_magnitude(first, kMinSquare, projected);
    kernels::copy_rows(projected, x.stream(i + 1));
  }
}

TensorView<float> AltUpProjections::end(TensorView<const float> x, const StepContext& step) const {
  const std::size_t size = x.columns() / (end_.size() + 1);
  const TensorView<const float> first = x.columns_from(0, size);
  const TensorView<float> sum = step.workspace.take(x.rows(), size);
  kernels::copy_rows(first, sum);
  for (std::size_t i = 0; i < end_.size(); ++i) {
    const Workspace::Frame frame(step.workspace);
    const TensorView<float> projected = end_[i](x.columns_from((i + 1) * size, size), step);
    kernels::match_magnitude(first, kMinSquare, projected);
    kernels::add(projected, sum);
  }
  kernels::scale(1.0F / static_cast<float>(end_.size() + 1), sum);
  return sum;
}

}  // namespace tp
