// Token ids to vectors and vectors to logits, both sharded over the vocabulary.
#pragma once

#include "model/linear.h"
#include "model/workspace.h"
#include "parallel/partial_sum.h"
#include "parallel/shard.h"
#include "tp/token_id.h"

#include <memory>
#include <span>

namespace tp {

// This rank's rows of an embedding or LM head matrix; a model with tied embeddings has one for both uses.
class VocabShard {
 public:
  VocabShard(WeightLoader& loader, const std::string& layer, std::size_t vocab_size, std::size_t hidden_size);

  Range tokens() const { return tokens_; }
  const LocalWeight& weight() const { return weight_; }  // [local_vocab, hidden_size]

 private:
  Range tokens_;
  LocalWeight weight_;
};

// A token's vector is held by one rank; the others' addend is zero.
class VocabParallelEmbedding {
 public:
  explicit VocabParallelEmbedding(std::shared_ptr<const VocabShard> shard) : shard_(std::move(shard)) {}

  // tokens: [tokens] -> an addend of [tokens, hidden_size]
  PartialSum operator()(std::span<const TokenId> tokens, Workspace& workspace) const;

 private:
  std::shared_ptr<const VocabShard> shard_;
};

// Logits stay sharded: a rank has those of its own tokens.
class LmHead {
 public:
  explicit LmHead(std::shared_ptr<const VocabShard> shard) : shard_(std::move(shard)) {}

  Range tokens() const { return shard_->tokens(); }

  // hidden: [rows, hidden_size] -> [rows, local_vocab]
  TensorView<float> operator()(TensorView<const float> hidden, Workspace& workspace) const;

 private:
  std::shared_ptr<const VocabShard> shard_;
};

}  // namespace tp
