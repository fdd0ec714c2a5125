#include "model/layers/blocks/post_norm_block.h"

namespace tp {

PostNormBlock::PostNormBlock(WeightLoader& loader, const BlockSpec& spec, std::size_t hidden_size,
                             const BlockNames& names)
    : attention_(loader, spec.attention, hidden_size, names),
      attention_norm_(loader, names.post_attention_norm, hidden_size, spec.post_attention_norm.value()),
      cross_attention_(load_cross_attention(loader, spec, hidden_size, names)),
      cross_attention_norm_(
          load_if_present(loader, names.cross_attention.norm, hidden_size, spec.cross_attention_norm)),
      feed_forward_(loader, spec.feed_forward, hidden_size, names),
      feed_forward_norm_(loader, names.post_feed_forward_norm, hidden_size,
                         spec.post_feed_forward_norm.value()) {}

void PostNormBlock::operator()(Residual& x, const StepContext& step, const kernels::PagedCache& cache) const {
  x.add_all_reduced(attention_(x.rows(), step, cache), std::nullopt, 1.0F);
  x.apply(attention_norm_);
  if (cross_attention_) {
    x.add_all_reduced((*cross_attention_)(x.rows(), step, cache), std::nullopt, 1.0F);
    x.apply(cross_attention_norm_.value());
  }
  x.add_all_reduced(feed_forward_(x.rows(), step), std::nullopt, 1.0F);
  x.apply(feed_forward_norm_);
}

}  // namespace tp
