// DeepSeek-V4's and V4.1's attention to a window of latents and to latents of pools.
#pragma once

#include "model/config/spec.h"
#include "model/config/tensor_names.h"
#include "model/kernels/attention.h"
#include "model/kernels/paged_cache.h"
#include "model/layers/attention/grouped_output.h"
#include "model/layers/attention/latent_pools.h"
#include "model/layers/attention/open_pools.h"
#include "model/layers/linear/linear.h"
#include "model/layers/linear/norm.h"
#include "model/layers/linear/step_context.h"
#include "model/memory/state_cache.h"
#include "parallel/shard/partial_sum.h"

#include <cstddef>
#include <optional>
#include <vector>

namespace tp {

// See CompressedAttentionSpec. Each rank owns some heads. Latents and the indexer are the same on every rank.
//
// Layers without pools cache the latents of all tokens, in a group of layers with the window. Layers with
// pools cache one latent per pool, and no latents of tokens. Their state contains the latents of the window
// and the rows of open pools. So refused drafts, prefix reuse, preemption and stored prompts need no code of
// their own, and latents outside of the window take no memory. A layer that reads the pools of an earlier
// layer has the same blocks of the cache as that layer, and only reads them.
//
// In layers with pools, each token copies the latents that it reads, first the window's, then the pools', and
// attends to the copies. The copies depend only on the token's position and on the tokens before it, so the
// result does not depend on chunks.
class CompressedAttention {
 public:
  // Throws CheckpointError, and ConfigError if there are more ranks than heads.
  CompressedAttention(WeightLoader& loader, const CompressedAttentionSpec& spec, std::size_t hidden_size,
                      const BlockNames& names);

  // x: [tokens, hidden_size] -> this rank's addend, [tokens, hidden_size]. Writes latents to the cache and to
  // the state.
  PartialSum operator()(TensorView<const float> x, const StepContext& step,
                        const kernels::PagedCache& cache) const;

  // Cache layout, the same on every rank.
  kernels::KvLayout kv_layout(KvType type, std::size_t block_size) const;
  // The state, in floats; 0 without pools. Every rank has the whole state.
  std::size_t state_floats() const;
  std::vector<StatePart> state_parts() const;

 private:
  CompressedAttention(WeightLoader& loader, const CompressedAttentionSpec& spec, std::size_t hidden_size,
                      const CompressedAttentionNames& names, Range heads);

  // Rotates the last elements of each vector. x: [tokens, vectors * size]
  void rotate(TensorView<float> x, std::size_t size, TensorView<const float> sine,
              const StepContext& step) const;
  // query: [tokens, heads * head_dim], latent: [tokens, head_dim] -> out: [tokens, heads * head_dim]
  void attend_to_window(TensorView<const float> query, TensorView<const float> latent,
                        const StepContext& step, const kernels::PagedCache& cache,
                        TensorView<float> out) const;
  // Lets tokens choose pools. weight: of index heads, [tokens, heads], which it overwrites. Returns whether
  // this rank has waited for the other ranks of the host.
  bool choose(TensorView<const float> query_latent, TensorView<float> weight, const StepContext& step,
              const kernels::PagedCache& cache) const;
  void attend_to_pools(TensorView<const float> query, TensorView<const float> latent, const StepContext& step,
                       const kernels::PagedCache& cache, TensorView<float> out) const;
  kernels::AttentionArgs args_of(TensorView<const float> query, const kernels::PagedCache& cache,
                                 std::size_t max_blocks, const StepContext& step,
                                 TensorView<float> out) const;

  CompressedAttentionSpec spec_;
  Range heads_;
  std::vector<std::size_t> latent_of_head_;  // all 0: all heads share one latent
  ColumnParallelLinear down_proj_;           // [q_lora_rank + head_dim, and what pools need, hidden_size]
  Norm q_a_norm_;                            // [q_lora_rank]
  ColumnParallelLinear q_b_proj_;            // [heads * head_dim, q_lora_rank]
  std::optional<Norm> q_norm_;               // [head_dim], without a gain
  Norm kv_norm_;                             // [head_dim]
  std::vector<float> sinks_;                 // [heads]
  // In layers with pools. The state begins with the window's rows.
  std::optional<RecentRows> window_{};
  std::optional<LatentPools> pools_{};                  // if the layer makes pools
  std::optional<ColumnParallelLinear> index_q_proj_{};  // [num_heads * head_dim, q_lora_rank]
  GroupedOutput output_;
};

}  // namespace tp
