// The indexer of latent attention: it chooses the positions that attention reads.
#pragma once

#include "model/config/spec.h"
#include "model/config/tensor_names.h"
#include "model/kernels/paged_cache.h"
#include "model/layers/attention/open_pools.h"
#include "model/layers/linear/linear.h"
#include "model/layers/linear/norm.h"
#include "model/layers/linear/step_context.h"
#include "model/weights/weight_loader.h"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace tp {

// Every rank has all index heads. If the ranks of a host keep one copy of the cache, each rank computes the
// scores of the positions that it owns, and the ranks exchange lists of their highest scores. All ranks make
// the same choice.
class Indexer {
 public:
  // `rope`: of the layer's attention. Throws CheckpointError.
  Indexer(WeightLoader& loader, const IndexerSpec& spec, const std::optional<RopeSpec>& rope,
          std::size_t q_lora_rank, const IndexerNames& names);

  // The rows of the hidden state's projection that the indexer reads: its key, gates if it pools keys, then
  // the weights of its heads.
  static std::vector<OwnedRows> down_rows(const IndexerSpec& spec, std::size_t hidden_size,
                                          const IndexerNames& names);
  static std::size_t down_size(const IndexerSpec& spec) { return raw_size(spec) + spec.num_heads; }
  // The projection of latents to queries. Throws CheckpointError.
  static ColumnParallelLinear load_queries(WeightLoader& loader, const IndexerSpec& spec,
                                           std::size_t q_lora_rank, const std::string& name);

  // Writes the index keys of the tokens, or of the pools that they close, to the cache, and advances the
  // states of open pools. down: [tokens, down_size()], which it overwrites.
  void remember(TensorView<float> down, const StepContext& step, const kernels::PagedCache& cache) const;
  // Writes the choice of each token that sees more than top_k positions to step.chosen. If there are such
  // tokens, waits until the other ranks of the host have written keys and values. query_latent: [tokens,
  // q_lora_rank], down: as it was given to remember(). Throws CommError.
  void choose(TensorView<const float> query_latent, TensorView<float> down, const StepContext& step,
              const kernels::PagedCache& cache) const;

  // The open pools, which are the layer's state; null: keys are not pooled.
  const OpenPools* pools() const { return pools_ ? &*pools_ : nullptr; }

 private:
  // Elements of a key and its gates.
  static std::size_t raw_size(const IndexerSpec& spec) { return (spec.pool > 1 ? 2 : 1) * spec.head_dim; }
  void remember_pools(TensorView<const float> raw, const StepContext& step,
                      const kernels::PagedCache& cache) const;
  void rotate(TensorView<float> x, const StepContext& step) const;

  IndexerSpec spec_;
  std::optional<RopeSpec> rope_;
  Norm k_norm_;                    // [head_dim]
  ColumnParallelLinear q_b_proj_;  // [num_heads * head_dim, q_lora_rank]
  std::optional<OpenPools> pools_;
  Buffer<float> addends_;  // [pool, head_dim], added to gates
};

}  // namespace tp
