// DeepSeek's multi-head latent attention (MLA).
#pragma once

#include "model/config/spec.h"
#include "model/config/tensor_names.h"
#include "model/kernels/paged_cache.h"
#include "model/layers/attention/indexer.h"
#include "model/layers/linear/headwise_linear.h"
#include "model/layers/linear/linear.h"
#include "model/layers/linear/norm.h"
#include "model/layers/linear/step_context.h"
#include "model/memory/state_cache.h"

#include <cstddef>
#include <optional>
#include <vector>

namespace tp {

// Sizes of one rank's part of a layer.
struct LatentAttentionSizes {
  LatentAttentionSizes(const LatentAttentionSpec& spec, TpRank tp);

  Range heads;
  std::size_t query_nope = 0;  // heads * qk_nope_head_dim
  std::size_t query_rope = 0;  // heads * qk_rope_head_dim
  // Rows of down_proj for the query: q_lora_rank, or query_nope + query_rope if queries have no latent.
  std::size_t query_in = 0;
  std::size_t latent = 0;  // kv_lora_rank + qk_rope_head_dim
  std::size_t value = 0;   // heads * v_head_dim
};

// Keys and values of all heads are projections of one small latent per token. Only the latent and one rotated
// key, which all heads share, are cached. Each rank owns some heads. Latents are the same on every rank,
// and the ranks of a host share the cache.
//
// The up-projections are never applied to the cache: score = query . (W_uk latent) = (W_uk^T query) . latent,
// and the weighted sum of values is W_uv times the weighted sum of latents. Prefill works this way, too. This
// takes more multiplications per key than expanded keys and values would (kv_lora_rank instead of a head's
// size), but a prefill chunk need not expand the whole cache again, and no buffer grows with the sequence.
// Source: DeepSeek-AI, DeepSeek-V2, 2024, section 2.1.
class LatentAttention {
 public:
  // Throws CheckpointError, and ConfigError if there are more ranks than heads.
  LatentAttention(WeightLoader& loader, const LatentAttentionSpec& spec, std::size_t hidden_size,
                  const BlockNames& names);

  // x: [tokens, hidden_size] -> this rank's addend, [tokens, hidden_size]. Writes the tokens' latents to the
  // cache.
  PartialSum operator()(TensorView<const float> x, const StepContext& step,
                        const kernels::PagedCache& cache) const;

  // Cache layout, the same on every rank.
  kernels::KvLayout kv_layout(KvType type, std::size_t block_size) const;
  // The state of an indexer's open pool, in floats; 0 if there are no pools. Every rank has the whole state.
  std::size_t state_floats() const;
  std::vector<StatePart> state_parts() const;

 private:
  LatentAttention(WeightLoader& loader, const LatentAttentionSpec& spec, std::size_t hidden_size,
                  const LatentAttentionNames& names, const LatentAttentionSizes& sizes);

  const OpenPools* open_pools() const { return indexer_ ? indexer_->pools() : nullptr; }
  // query: [tokens, heads * latent] -> out: [tokens, heads * kv_lora_rank], the weighted sums of latents.
  void attend(TensorView<const float> query, const StepContext& step, const kernels::PagedCache& cache,
              TensorView<float> out) const;

  // Expands a query latent into the queries of this rank's heads.
  struct QueryExpansion {
    Norm norm;                    // [q_lora_rank]
    ColumnParallelLinear b_proj;  // [query_nope + query_rope, q_lora_rank]
  };

  LatentAttentionSpec spec_;
  LatentAttentionSizes sizes_;
  std::vector<std::size_t> latent_of_head_;  // all 0: all heads share one latent
  ColumnParallelLinear down_proj_;           // [query_in + latent, and what the indexer reads, hidden_size]
  std::optional<QueryExpansion> q_proj_;     // set if the spec has a q_lora_rank
  std::optional<Indexer> indexer_;           // nullopt also if the layer shares another layer's indexer
  Norm kv_a_norm_;                           // [kv_lora_rank]
  HeadwiseLinear absorb_proj_;               // W_uk^T of every head: [kv_lora_rank, qk_nope_head_dim]
  std::vector<float> sinks_;                 // [heads], or empty
  HeadwiseLinear value_proj_;                // W_uv of every head: [v_head_dim, kv_lora_rank]
  RowParallelLinear o_proj_;                 // [hidden_size, value]
};

}  // namespace tp
