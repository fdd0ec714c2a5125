#include "model/layers/blocks/depth_attention.h"

#include "model/kernels/elementwise.h"
#include "model/kernels/streams.h"

#include <algorithm>

namespace tp {

DepthAttention::DepthAttention(WeightLoader& loader, const NormSpec& norm, std::size_t sums, bool keep,
                               std::size_t hidden_size, const DepthAttentionNames& names)
    : sums_(sums), keep_(keep), eps_(norm.eps) {
  const Buffer<float> proj = loader.whole_weight({names.proj, {1, hidden_size}, "one weight", "hidden_size"});
  weight_.assign(hidden_size, 1.0F);
  if (norm.gain)
    weight_ = loader.whole_vector(tensor_names::weight_of(names.norm), hidden_size, "hidden_size");
  for (std::size_t i = 0; i < hidden_size && proj.data() != nullptr; ++i) weight_[i] *= proj.data()[i];
}

DepthAttention DepthAttention::of_attention(WeightLoader& loader, const BlockSpec& spec,
                                            std::size_t hidden_size, const BlockNames& names) {
  const DepthAttentionSpec& depth = spec.depth_attention.value();
  return {loader,       depth.norm,  depth.sum + (depth.begins ? 0 : 1),
          depth.begins, hidden_size, names.attention_residual};
}

DepthAttention DepthAttention::of_feed_forward(WeightLoader& loader, const BlockSpec& spec,
                                               std::size_t hidden_size, const BlockNames& names) {
  const DepthAttentionSpec& depth = spec.depth_attention.value();
  return {loader, depth.norm, depth.sum + 1, false, hidden_size, names.feed_forward_residual};
}

TensorView<float> DepthAttention::operator()(TensorView<const float> x, const StepContext& step) const {
  const TensorView<float> sum = step.workspace.take(x.rows(), weight_.size());
  const Workspace::Frame frame(step.workspace);
  const TensorView<float> weights = step.workspace.take(x.rows(), sums_ + 1);
  const TensorView<const float> kept = x.columns_from(0, (sums_ + 1) * weight_.size());
  kernels::attend_to_streams(kept, weight_, eps_, weights);
  kernels::sum_streams(weights, kept, sum);
  return sum;
}

DepthAttention::Entered DepthAttention::enter(TensorView<const float> streams,
                                              const StepContext& step) const {
  return {(*this)(streams, step)};
}

void DepthAttention::leave(TensorView<const float> y, const Entered& /*entered*/,
                           TensorView<float> streams) const {
  if (streams.empty()) return;  // a shape-only step
  const std::size_t size = weight_.size();
  const TensorView<float> running = streams.columns_from(0, size);
  if (!keep_) return kernels::add(y, running);
  for (std::size_t row = 0; row < streams.rows(); ++row) {
    std::copy_n(running.row(row), size, streams.row(row) + (1 + sums_) * size);
    std::copy_n(y.row(row), size, running.row(row));
  }
}

}  // namespace tp
