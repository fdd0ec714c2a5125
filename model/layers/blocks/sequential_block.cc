#include "model/layers/blocks/sequential_block.h"

namespace tp {

SequentialBlock::SequentialBlock(WeightLoader& loader, const BlockSpec& spec, std::size_t hidden_size,
                                 const BlockNames& names)
    : input_norm_(load_if_present(loader, names.input_norm, hidden_size, spec.input_norm)),
      attention_(loader, spec.attention, hidden_size, names),
      post_attention_norm_(
          load_if_present(loader, names.post_attention_norm, hidden_size, spec.post_attention_norm)),
      cross_attention_norm_(
          load_if_present(loader, names.cross_attention.norm, hidden_size, spec.cross_attention_norm)),
      cross_attention_(load_cross_attention(loader, spec, hidden_size, names)),
      pre_feed_forward_norm_(
          load_if_present(loader, names.pre_feed_forward_norm, hidden_size, spec.pre_feed_forward_norm)),
      feed_forward_(loader, spec.feed_forward, hidden_size, names),
      post_feed_forward_norm_(
          load_if_present(loader, names.post_feed_forward_norm, hidden_size, spec.post_feed_forward_norm)),
      residual_scale_(spec.residual_scale) {}

void SequentialBlock::operator()(Residual& x, const StepContext& step,
                                 const kernels::PagedCache& cache) const {
  x.add_all_reduced(attention_(x.normed(input_norm_), step, cache), post_attention_norm_, residual_scale_);
  if (cross_attention_)
    x.add_all_reduced((*cross_attention_)(x.normed(cross_attention_norm_), step, cache), std::nullopt,
                      residual_scale_);
  x.add_all_reduced(feed_forward_(x.normed(pre_feed_forward_norm_), step), post_feed_forward_norm_,
                    residual_scale_);
}

}  // namespace tp
