// A Llama decoder as simple as it can be: double precision, no cache, no shards, whole matrices. It shares
// the config with model/ and nothing else.
#pragma once

#include "model/checkpoint/weight_source.h"
#include "tests/reference/matrix.h"
#include "tp/model_config.h"
#include "tp/token_id.h"

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace tp::reference {

class Llama {
 public:
  // `weights` must outlive it.
  Llama(ModelConfig config, const WeightSource& weights) : config_(std::move(config)), source_(weights) {}

  // Of every position: [tokens, vocab_size].
  Matrix logits(std::span<const TokenId> tokens);

  // The argmax continuation, end-of-sequence tokens included.
  std::vector<TokenId> greedy(std::vector<TokenId> tokens, std::size_t count);

 private:
  const Matrix& weight(const std::string& name, std::size_t rows, std::size_t columns);
  std::vector<double> vector(const std::string& name, std::size_t size);
  // x . weight^T, and the bias if there is one.
  Matrix linear(const Matrix& x, const std::string& layer, std::size_t out_features, bool bias);
  Matrix norm(const Matrix& x, const std::string& layer);
  Matrix attention(const Matrix& x, const std::string& prefix, const Matrix& angles, double magnitude);
  Matrix mlp(const Matrix& x, const std::string& prefix);

  ModelConfig config_;
  const WeightSource& source_;
  std::map<std::string, Matrix> weights_;  // read once each
};

}  // namespace tp::reference
