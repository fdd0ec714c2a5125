#include "model/layers/blocks/reversible_block.h"

namespace tp {

ReversibleBlock::ReversibleBlock(WeightLoader& loader, const BlockSpec& spec, std::size_t hidden_size,
                                 const BlockNames& names)
    : input_norm_(loader, names.input_norm, hidden_size, spec.input_norm.value()),
      attention_(loader, spec.attention, hidden_size, names),
      pre_feed_forward_norm_(loader, names.pre_feed_forward_norm, hidden_size,
                             spec.pre_feed_forward_norm.value()),
      feed_forward_(loader, spec.feed_forward, hidden_size, names) {}

void ReversibleBlock::operator()(Residual& x, const StepContext& step,
                                 const kernels::PagedCache& cache) const {
  x.add_all_reduced(attention_(x.normed(input_norm_, 1), step, cache), 0);
  x.add_all_reduced(feed_forward_(x.normed(pre_feed_forward_norm_, 0), step), 1);
}

}  // namespace tp
