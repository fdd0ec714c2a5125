// Token ids to vectors and vectors to logits, both sharded over the vocabulary.
#pragma once

#include "model/layers/axial_positions.h"
#include "model/layers/linear/linear.h"
#include "model/layers/linear/step_context.h"
#include "model/memory/workspace.h"
#include "parallel/shard/partial_sum.h"
#include "parallel/shard/shard.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tp {

// This rank's rows of an embedding or LM head matrix; a model with tied embeddings has one for both uses. A
// table of learned positions is sharded in the same way.
class VocabShard {
 public:
  // `reason` is the config value that the number of rows follows from.
  VocabShard(WeightLoader& loader, const std::string& layer, std::size_t rows, std::size_t hidden_size,
             const std::string& reason = "vocab_size");

  Range tokens() const { return tokens_; }
  const LocalWeight& weight() const { return weight_; }  // [local_vocab, hidden_size]

  // Writes row `id`, [hidden_size]; false, and nothing written, if another rank holds it.
  bool copy_row(std::size_t id, float* out) const;

 private:
  Range tokens_;
  LocalWeight weight_;
};

// One rank has a token's vector; the others' addend is zero. Where a model has learned positions, the vector
// of the token's position is added, which one rank has, too, and where tokens have types, that of its type.
// Token vectors may be projected before.
class VocabParallelEmbedding {
 public:
  // Token vectors are multiplied by `scale`. `positions`, `types` and `projection`, which has no bias, may be
  // null; position 0 is the row `first_position`. `axial`: on the rank that adds these. `sinusoidal`: sines
  // and cosines of positions are added.
  VocabParallelEmbedding(std::shared_ptr<const VocabShard> tokens, float scale,
                         std::shared_ptr<const VocabShard> positions, std::size_t first_position = 0,
                         std::shared_ptr<const VocabShard> types = nullptr,
                         std::shared_ptr<const ColumnParallelLinear> projection = nullptr,
                         std::optional<AxialPositions> axial = std::nullopt, bool sinusoidal = false)
      : tokens_(std::move(tokens)),
        scale_(scale),
        positions_(std::move(positions)),
        first_position_(first_position),
        types_(std::move(types)),
        projection_(std::move(projection)),
        axial_(std::move(axial)),
        sinusoidal_(sinusoidal) {}

  // The step's tokens at their positions -> an addend of [tokens, size of a vector]
  PartialSum operator()(const StepContext& step) const;

 private:
  std::shared_ptr<const VocabShard> tokens_;
  float scale_;
  std::shared_ptr<const VocabShard> positions_;
  std::size_t first_position_;
  std::shared_ptr<const VocabShard> types_;
  std::shared_ptr<const ColumnParallelLinear> projection_;  // all of it on every rank
  std::optional<AxialPositions> axial_;
  bool sinusoidal_;
};

// Logits stay sharded: a rank has those of its own tokens.
class LmHead {
 public:
  // `bias`: of this rank's tokens, [local_vocab], or empty. Logits are multiplied by `scale`; with a softcap
  // they are softcap * tanh(logit / softcap) then.
  LmHead(std::shared_ptr<const VocabShard> shard, std::vector<float> bias, float scale,
         std::optional<float> softcap)
      : shard_(std::move(shard)), bias_(std::move(bias)), scale_(scale), softcap_(softcap) {}

  Range tokens() const { return shard_->tokens(); }

  // hidden: [rows, hidden_size] -> [rows, local_vocab]
  TensorView<float> operator()(TensorView<const float> hidden, Workspace& workspace) const;

 private:
  std::shared_ptr<const VocabShard> shard_;
  std::vector<float> bias_;
  float scale_;
  std::optional<float> softcap_;
};

}  // namespace tp
