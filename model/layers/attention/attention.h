// Multi-head, grouped-query and multi-query attention, which differ only in the number of query heads per KV
// head.
#pragma once

#include "model/config/spec.h"
#include "model/config/tensor_names.h"
#include "model/kernels/attention.h"
#include "model/kernels/paged_cache.h"
#include "model/layers/attention/block_indexer.h"
#include "model/layers/attention/favor.h"
#include "model/layers/attention/pooled_indexer.h"
#include "model/layers/linear/head_norm.h"
#include "model/layers/linear/linear.h"
#include "model/layers/linear/projection_norm.h"
#include "model/layers/linear/step_context.h"

#include <cstddef>
#include <optional>
#include <span>
#include <variant>
#include <vector>

namespace tp {

class Attention {
 public:
  // Throws CheckpointError, and ConfigError if there are more ranks than heads.
  Attention(WeightLoader& loader, const AttentionSpec& spec, std::size_t hidden_size,
            const BlockNames& names);

  // x: [tokens, hidden_size] -> this rank's addend, [tokens, hidden_size]. Writes the tokens' keys and values
  // to the cache, unless the layer shares the cache of an earlier layer, which has written them. Collective
  // if the layer has a ProjectionNorm; throws CommError.
  PartialSum operator()(TensorView<const float> x, const StepContext& step,
                        const kernels::PagedCache& cache) const;

  // Writes the keys and values that these vectors, [tokens, hidden_size], give at the step's positions to the
  // cache, and computes nothing else.
  void remember(TensorView<const float> x, const StepContext& step, const kernels::PagedCache& cache) const;

  // Cache layout on this rank; empty if random features approximate attention.
  kernels::KvLayout kv_layout(KvType type, std::size_t block_size) const;
  // Size of one sequence's state on this rank, in floats; 0 for exact attention without open pools.
  std::size_t state_floats() const;
  std::vector<StatePart> state_parts() const;

 private:
  // Writes the tokens' keys and values to the cache and computes exact attention. query: [tokens,
  // query_size], key, value: [tokens, own_kv_size] -> [tokens, query_size].
  TensorView<float> attend_to_cache(TensorView<const float> query, TensorView<const float> key,
                                    TensorView<const float> value, const StepContext& step,
                                    const kernels::PagedCache& cache) const;
  // Like attend_to_cache, but for dilated windows: first sorts the tokens by residue (see Residues).
  TensorView<float> attend_by_residues(TensorView<const float> query, TensorView<const float> key,
                                       TensorView<const float> value, const StepContext& step,
                                       const kernels::PagedCache& cache) const;
  // Like attend_to_cache, but to the blocks that the indexer chooses. x: [tokens, hidden_size]
  TensorView<float> attend_to_blocks(TensorView<const float> x, TensorView<const float> query,
                                     TensorView<const float> key, TensorView<const float> value,
                                     const StepContext& step, const kernels::PagedCache& cache) const;
  // The arguments of attention, with room for the result. query: [tokens, query_size]
  kernels::AttentionArgs arguments(TensorView<const float> query, const StepContext& step,
                                   std::span<const kernels::AttentionSpan> spans,
                                   const kernels::PagedCache& cache, const AttentionPattern& pattern) const;
  // Attends to the keys and values in the cache. query: [tokens, query_size] -> [tokens, query_size].
  TensorView<float> attend(TensorView<const float> query, const StepContext& step,
                           std::span<const kernels::AttentionSpan> spans, const kernels::PagedCache& cache,
                           const AttentionPattern& pattern) const;
  // Recomputes the rows of global tokens in `attended` with the global projections.
  void attend_globally(TensorView<const float> x, const StepContext& step, const kernels::PagedCache& cache,
                       TensorView<float> attended) const;
  // The values, after their norm, [tokens, own_kv_size]. qkv: the output of qkv_proj; key: its keys.
  TensorView<float> values_of(TensorView<float> qkv, TensorView<const float> key,
                              const StepContext& step) const;
  // Scales attention's output. gates: [tokens, gates_]
  void apply_gates(TensorView<const float> gates, TensorView<float> attended) const;
  void normalize(TensorView<float> query, TensorView<float> key, const StepContext& step) const;

  Attention(WeightLoader& loader, const AttentionSpec& spec, std::size_t hidden_size, const BlockNames& names,
            const HeadShard& shard);

  std::size_t head_dim_;
  std::size_t query_size_;   // local_heads * head_dim
  std::size_t kv_size_;      // local_kv_heads * head_dim
  std::size_t own_kv_size_;  // kv_size, or 0 if the layer shares an earlier layer's cache
  std::size_t value_dim_;    // size of a value, and of a head's output
  bool values_are_keys_;
  std::vector<std::size_t> kv_of_head_;  // [local_heads]
  std::optional<RopeSpec> rope_;
  bool interleaved_rope_;
  bool norms_after_rope_;
  AttentionPattern pattern_;
  float scale_;
  std::optional<float> softcap_;
  std::vector<float> alibi_slopes_;  // [local_heads], or empty
  std::optional<QueryScalingSpec> query_scaling_;
  std::size_t gates_;  // gates of this rank's outputs: local_heads or query_size; 0: none
  bool softplus_gate_;
  float output_scale_;
  // [query_size + own_kv_size + values (+ gates), hidden_size]: q, k, v (and gates), stacked vertically. No v
  // if values are keys.
  ColumnParallelLinear qkv_proj_;
  std::optional<HeadNorm> query_norm_;
  std::optional<HeadNorm> key_norm_;
  std::optional<HeadNorm> value_norm_;
  std::optional<ProjectionNorm> projection_norm_;  // instead of query_norm_ and key_norm_
  std::optional<float> clip_qkv_;
  std::vector<float> sinks_;  // [local_heads], or empty
  bool relative_bias_;
  std::variant<std::monostate, BlockIndexer, PooledIndexer> indexer_;
  std::optional<Favor> favor_;
  std::optional<ColumnParallelLinear> global_qkv_proj_;  // like qkv_proj_, for global tokens
  RowParallelLinear o_proj_;                             // [hidden_size, query_size]
};

}  // namespace tp
