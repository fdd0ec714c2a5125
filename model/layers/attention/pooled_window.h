// Attention to the latents of a window, which are in a layer's state, and to latents of pools, which are in
// the cache.
#pragma once

#include "model/config/attention_spec.h"
#include "model/kernels/attention.h"
#include "model/kernels/paged_cache.h"
#include "model/kernels/recurrent_run.h"
#include "model/layers/attention/open_pools.h"
#include "model/layers/linear/recurrent_runs.h"
#include "model/layers/linear/step_context.h"
#include "tp/tensor.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tp {

// Copies of the latents that the tokens of a group attend to, for one layer and step. Each token has its own
// blocks, with the latents of its window first, in the order of positions, and then those of pools, in the
// order of their numbers.
class PooledWindow {
 public:
  // latent: of the step's tokens, [tokens, head_dim]; the state has those of earlier tokens. The state must
  // outlive this object unchanged.
  PooledWindow(const CompressedAttentionSpec& spec, const RecentRows& window, TensorView<const float> latent,
               const StepContext& step, const kernels::PagedCache& cache);

  const kernels::PagedCache& copies() const { return copies_; }
  // Blocks of a token.
  std::size_t blocks() const { return blocks_; }

  // Computes attention for all tokens. `args` has copies() as its cache, and no spans.
  void attend(kernels::AttentionArgs args) const;

 private:
  // A token of the step.
  struct Token {
    std::size_t sequence = 0;
    std::size_t row = 0;  // in the batch
    std::size_t position = 0;
  };

  // Copies what a token reads. Returns the number of copies. `place`: the token's number in the group.
  std::size_t copy(const kernels::RecurrentRun& run, const Token& token, std::size_t place) const;
  // The pools that a token reads, ascending.
  std::vector<std::int32_t> pools_of(const Token& token) const;

  const CompressedAttentionSpec& spec_;
  const RecentRows& window_;
  TensorView<const float> latent_;
  const StepContext& step_;
  const kernels::PagedCache& cache_;
  std::size_t group_;   // most tokens of a group
  std::size_t blocks_;  // per token
  kernels::PagedCache copies_;
  std::vector<std::int32_t> table_;  // [group * blocks]
};

}  // namespace tp
