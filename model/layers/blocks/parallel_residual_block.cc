#include "model/layers/blocks/parallel_residual_block.h"

namespace tp {

ParallelResidualBlock::ParallelResidualBlock(WeightLoader& loader, const BlockSpec& spec,
                                             std::size_t hidden_size, const BlockNames& names)
    : input_norm_(load_if_present(loader, names.input_norm, hidden_size, spec.input_norm)),
      attention_(loader, spec.attention, hidden_size, names),
      pre_feed_forward_norm_(
          load_if_present(loader, names.pre_feed_forward_norm, hidden_size, spec.pre_feed_forward_norm)),
      feed_forward_(loader, spec.feed_forward, hidden_size, names),
      residual_scale_(spec.residual_scale) {}

void ParallelResidualBlock::operator()(Residual& x, const StepContext& step,
                                       const kernels::PagedCache& cache) const {
  const TensorView<const float> attention_in = x.normed(input_norm_);
  PartialSum sum = attention_(attention_in, step, cache);
  sum += feed_forward_(pre_feed_forward_norm_ ? x.normed(*pre_feed_forward_norm_) : attention_in, step);
  x.add_all_reduced(std::move(sum), std::nullopt, residual_scale_);
}

}  // namespace tp
