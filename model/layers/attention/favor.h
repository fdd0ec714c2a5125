// Approximate attention with random features (--attention favor).
#pragma once

#include "model/kernels/favor.h"
#include "model/layers/linear/step_context.h"
#include "model/memory/state_cache.h"
#include "parallel/shard/shard.h"

#include <cstddef>
#include <span>
#include <vector>

namespace tp {

// Random features for this rank's KV heads. A head's features depend only on its index in the model.
class Favor {
 public:
  Favor(Range kv_heads, std::size_t num_features, std::size_t head_dim);

  // query: [tokens, heads * head_dim], key, value: [tokens, kv_heads * head_dim] -> [tokens, heads *
  // head_dim]. Advances the states of the batch's sequences.
  TensorView<float> operator()(TensorView<const float> query, TensorView<const float> key,
                               TensorView<const float> value, std::span<const std::size_t> kv_of_head,
                               float scale, const StepContext& step) const;

  // Size of one sequence's state on this rank, in floats.
  std::size_t state_floats() const;
  // A part of this state for each KV head.
  std::vector<StatePart> state_parts() const;

 private:
  Range kv_heads_;
  std::size_t num_features_;
  std::size_t head_dim_;
  std::vector<float> features_;  // [kv_heads, num_features, head_dim]
};

}  // namespace tp
