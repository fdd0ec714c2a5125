// The latents and index keys of pools, which compressed attention caches.
#pragma once

#include "model/config/spec.h"
#include "model/config/tensor_names.h"
#include "model/kernels/paged_cache.h"
#include "model/layers/attention/compressor.h"
#include "model/layers/linear/linear.h"
#include "model/layers/linear/norm.h"
#include "model/layers/linear/step_context.h"
#include "model/memory/state_cache.h"
#include "model/weights/weight_loader.h"

#include <cstddef>
#include <optional>
#include <vector>

namespace tp {

// See CompressedAttentionSpec. Every rank computes all latents and index keys, and writes those that it owns.
class LatentPools {
 public:
  // `spec`: makes_pools(). `state_offset`: floats of the layer's state before this part. Throws
  // CheckpointError.
  LatentPools(WeightLoader& loader, const CompressedAttentionSpec& spec,
              const CompressedAttentionNames& names, std::size_t state_offset);

  // The rows of the hidden state's projection that pools read.
  static std::vector<OwnedRows> down_rows(const CompressedAttentionSpec& spec, std::size_t hidden_size,
                                          const CompressedAttentionNames& names);
  static std::size_t down_size(const CompressedAttentionSpec& spec);

  // Writes the latents and index keys of the pools that the step closes to the cache, and advances the
  // state. raw: [tokens, down_size()]
  void remember(TensorView<const float> raw, const StepContext& step, const kernels::PagedCache& cache) const;

  std::size_t state_floats() const;
  std::vector<StatePart::Rows> state_rows() const;

 private:
  // Index keys that are projections of latents.
  struct KeysOfLatents {
    ColumnParallelLinear proj;  // [index_head_dim, head_dim]
    Norm norm;                  // [index_head_dim]
  };

  // made: pools' latents before RoPE.
  void remember_keys_of(const Compressor::Pools& made, const StepContext& step,
                        const kernels::PagedCache& cache) const;

  CompressedAttentionSpec spec_;
  Compressor compressor_;
  // At most one of both.
  std::optional<Compressor> index_compressor_;
  std::optional<KeysOfLatents> keys_of_latents_;
};

}  // namespace tp
