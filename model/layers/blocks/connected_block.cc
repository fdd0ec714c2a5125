#include "model/layers/blocks/connected_block.h"

namespace tp {

template <class Connection>
ConnectedBlock<Connection>::ConnectedBlock(WeightLoader& loader, const BlockSpec& spec,
                                           std::size_t hidden_size, const BlockNames& names)
    : attention_connection_(Connection::of_attention(loader, spec, hidden_size, names)),
      input_norm_(loader, names.input_norm, hidden_size, spec.input_norm.value()),
      attention_(loader, spec.attention, hidden_size, names),
      feed_forward_connection_(Connection::of_feed_forward(loader, spec, hidden_size, names)),
      pre_feed_forward_norm_(loader, names.pre_feed_forward_norm, hidden_size,
                             spec.pre_feed_forward_norm.value()),
      feed_forward_(loader, spec.feed_forward, hidden_size, names) {}

template <class Connection>
void ConnectedBlock<Connection>::operator()(Residual& x, const StepContext& step,
                                            const kernels::PagedCache& cache) const {
  x.through(attention_connection_, [&](TensorView<const float> input) {
    return attention_(input_norm_(input, step.workspace), step, cache);
  });
  x.through(feed_forward_connection_, [&](TensorView<const float> input) {
    return feed_forward_(pre_feed_forward_norm_(input, step.workspace), step);
  });
}

template class ConnectedBlock<HyperConnection>;
template class ConnectedBlock<DepthAttention>;

}  // namespace tp
