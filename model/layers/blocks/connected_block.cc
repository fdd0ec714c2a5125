#include "model/layers/blocks/connected_block.h"

namespace tp {
namespace {

std::optional<HashTable> load_hash_table(WeightLoader& loader, const BlockSpec& spec, std::size_t hidden_size,
                                         const BlockNames& names) {
  if (!spec.hash_table) return std::nullopt;
  return HashTable(loader, *spec.hash_table, hidden_size, names.hash_table);
}

}  // namespace

template <class Connection>
ConnectedBlock<Connection>::ConnectedBlock(WeightLoader& loader, const BlockSpec& spec,
                                           std::size_t hidden_size, const BlockNames& names)
    : hash_table_(load_hash_table(loader, spec, hidden_size, names)),
      attention_connection_(Connection::of_attention(loader, spec, hidden_size, names)),
      input_norm_(load_if_present(loader, names.input_norm, hidden_size, spec.input_norm)),
      attention_(loader, spec.attention, hidden_size, names),
      feed_forward_connection_(Connection::of_feed_forward(loader, spec, hidden_size, names)),
      pre_feed_forward_norm_(
          load_if_present(loader, names.pre_feed_forward_norm, hidden_size, spec.pre_feed_forward_norm)),
      feed_forward_(loader, spec.feed_forward, hidden_size, names) {}

template <class Connection>
void ConnectedBlock<Connection>::operator()(Residual& x, const StepContext& step,
                                            const kernels::PagedCache& cache) const {
  if (hash_table_) {
    x.add_to_all([&](TensorView<const float> streams, const StepContext&) {
      const TraceSpan span(step.tracer, Activity::attention, streams.rows());
      return (*hash_table_)(streams, of_table(step));
    });
  }
  const auto normed = [&](const std::optional<Norm>& norm, TensorView<const float> input) {
    return norm ? (*norm)(input, step.workspace) : input;
  };
  x.through(attention_connection_, [&](TensorView<const float> input) {
    return attention_(normed(input_norm_, input), step, cache);
  });
  x.through(feed_forward_connection_, [&](TensorView<const float> input) {
    return feed_forward_(normed(pre_feed_forward_norm_, input), step);
  });
}

template class ConnectedBlock<HyperConnection>;
template class ConnectedBlock<LowRankConnection>;
template class ConnectedBlock<DepthAttention>;

}  // namespace tp
