// A Falcon decoder as simple as possible, in all its variants: old and new architecture, parallel or not,
// with rotary positions or ALiBi. Follows transformers' modeling_falcon. Shares only the config with model/.
#pragma once

#include "model/config/checkpoint_config.h"
#include "tests/reference/matrix.h"
#include "tests/reference/stored_weights.h"
#include "tp/token_id.h"

#include <span>
#include <string>

namespace tp::reference {

class Falcon {
 public:
  // `weights` must outlive it.
  Falcon(CheckpointConfig config, const WeightSource& weights)
      : config_(std::move(config)), weights_(weights) {}

  // Returns the logits of every position: [tokens, vocab_size].
  Matrix logits(std::span<const TokenId> tokens);

 private:
  Matrix norm(const Matrix& x, const std::string& layer);
  Matrix attention(const Matrix& x, const std::string& prefix);
  Matrix mlp(const Matrix& x, const std::string& prefix);

  CheckpointConfig config_;
  StoredWeights weights_;
};

// Returns the slopes of build_alibi_tensor.
std::vector<double> alibi_slopes(std::size_t heads);

}  // namespace tp::reference
