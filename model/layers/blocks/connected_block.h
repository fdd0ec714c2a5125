// A block whose halves read several streams through connections.
#pragma once

#include "model/layers/blocks/block_parts.h"
#include "model/layers/blocks/depth_attention.h"
#include "model/layers/blocks/hash_table.h"
#include "model/layers/blocks/hyper_connection.h"
#include "model/layers/blocks/low_rank_connection.h"
#include "model/layers/blocks/residual.h"

#include <cstddef>
#include <optional>

namespace tp {

// It has the two all-reduces of a sequential block, and one more with a hash table that ranks divide.
// `Connection`: see Residual::through.
template <class Connection>
class ConnectedBlock {
 public:
  // Throws ConfigError or CheckpointError.
  ConnectedBlock(WeightLoader& loader, const BlockSpec& spec, std::size_t hidden_size,
                 const BlockNames& names);

  // See HashTable::announce_rows. Only for blocks with a hash table.
  void announce_rows(const StepContext& step) const { hash_table_->announce_rows(of_table(step)); }
  // Collective; throws CommError.
  void operator()(Residual& x, const StepContext& step, const kernels::PagedCache& cache) const;

  const AttentionPart& attention() const { return attention_; }
  // Its state follows that of attention. Null if the block has no hash table.
  const HashTable* hash_table() const { return hash_table_ ? &*hash_table_ : nullptr; }

 private:
  // The step with the states of the hash table.
  StepContext of_table(StepContext step) const {
    step.states = step.states.after(attention_.state_floats());
    return step;
  }

  std::optional<HashTable> hash_table_;
  Connection attention_connection_;
  std::optional<Norm> input_norm_;
  AttentionPart attention_;
  Connection feed_forward_connection_;
  std::optional<Norm> pre_feed_forward_norm_;
  FeedForwardPart feed_forward_;
};

extern template class ConnectedBlock<HyperConnection>;
extern template class ConnectedBlock<LowRankConnection>;
extern template class ConnectedBlock<DepthAttention>;

}  // namespace tp
