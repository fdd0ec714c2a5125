// A Llama decoder as simple as possible: double precision, no cache, no shards, whole matrices. Shares only
// the config with model/.
#pragma once

#include "model/config/checkpoint_config.h"
#include "tests/reference/kernels.h"
#include "tests/reference/matrix.h"
#include "tests/reference/stored_weights.h"
#include "tp/token_id.h"

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace tp::reference {

// A layer's differences from the config's attention.
struct LayerAttention {
  double rope_theta = 0.0;  // 0: no positions
  Pattern pattern;
};

class Llama {
 public:
  // `weights` must outlive it. `layers` may be empty.
  Llama(CheckpointConfig config, const WeightSource& weights, std::vector<LayerAttention> layers = {})
      : config_(std::move(config)), weights_(weights), layers_(std::move(layers)) {
    layers_.resize(config_.num_hidden_layers, {config_.rope_theta, {}});
  }

  // Returns the logits of every position: [tokens, vocab_size].
  Matrix logits(std::span<const TokenId> tokens);

  // Returns the greedy continuation, including end-of-sequence tokens.
  std::vector<TokenId> greedy(std::vector<TokenId> tokens, std::size_t count);

 private:
  Matrix norm(const Matrix& x, const std::string& layer);
  Matrix attention(const Matrix& x, const std::string& prefix, const LayerAttention& layer);
  Matrix mlp(const Matrix& x, const std::string& prefix);

  CheckpointConfig config_;
  StoredWeights weights_;
  std::vector<LayerAttention> layers_;
};

}  // namespace tp::reference
