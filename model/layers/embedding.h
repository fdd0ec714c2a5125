// Converts token ids to vectors, and hidden states to logits, with tables sharded over the vocabulary.
#pragma once

#include "model/layers/axial_positions.h"
#include "model/layers/linear/linear.h"
#include "model/layers/linear/step_context.h"
#include "model/layers/vocab_adapters.h"
#include "model/memory/buffer.h"
#include "model/memory/workspace.h"
#include "parallel/shard/partial_sum.h"
#include "parallel/shard/shard.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tp {

// This rank's rows of an embedding or LM head matrix. Tied embeddings share one matrix. Tables of learned
// positions and token types are sharded the same way.
class VocabShard {
 public:
  // `reason`: the config value that determines `rows`, for error messages.
  VocabShard(WeightLoader& loader, const std::string& layer, std::size_t rows, std::size_t hidden_size,
             const std::string& reason = "vocab_size");

  Range tokens() const { return tokens_; }
  const LocalWeight& weight() const { return weight_; }  // [local_vocab, hidden_size]

  // Writes row `id` to `out`, [hidden_size]. Returns false and writes nothing if another rank holds the row.
  bool copy_row(std::size_t id, float* out) const;
  // This rank's addend in sums of vectors by the weights of their tokens, and of weights: see
  // kernels::sum_weighted_rows. weights: [rows, local_vocab], sums: [rows, hidden_size + 1].
  void sum_weighted(TensorView<const float> weights, TensorView<double> sums) const {
    weight_.sum_weighted_rows(weights, sums);
  }

 private:
  Range tokens_;
  LocalWeight weight_;
};

// Each token's vector is on one rank; the other ranks add zeros. Position vectors, if the model has them, are
// added the same way. Token vectors may be projected before these are added. Every rank has all type vectors:
// a sum of two addends has the same bits on any number of ranks, but one of three doesn't.
class VocabParallelEmbedding {
 public:
  // `scale` multiplies token vectors. `positions` and `projection` may be null; `projection` must have no
  // bias. `first_position`: the table row of position 0. `types`: [token types, size of the result], or
  // empty. `axial`: set only on the rank that adds axial positions. `sinusoidal`: whether to add sines and
  // cosines of positions. `adapters`: of `tokens`.
  VocabParallelEmbedding(std::shared_ptr<const VocabShard> tokens, float scale,
                         std::shared_ptr<const VocabShard> positions, std::size_t first_position = 0,
                         Buffer<float> types = {},
                         std::shared_ptr<const ColumnParallelLinear> projection = nullptr,
                         std::optional<AxialPositions> axial = std::nullopt, bool sinusoidal = false,
                         EmbeddingAdapters adapters = {})
      : tokens_(std::move(tokens)),
        scale_(scale),
        positions_(std::move(positions)),
        first_position_(first_position),
        types_(std::move(types)),
        projection_(std::move(projection)),
        axial_(std::move(axial)),
        sinusoidal_(sinusoidal),
        adapters_(std::move(adapters)) {}

  // Embeds the step's tokens -> this rank's addend, [tokens, vector size]
  PartialSum operator()(const StepContext& step) const;

 private:
  // Adds the type's vector of a row to `out`, if the model has types.
  void add_type(const StepContext& step, std::size_t row, TensorView<float> out) const;

  std::shared_ptr<const VocabShard> tokens_;
  float scale_;
  std::shared_ptr<const VocabShard> positions_;
  std::size_t first_position_;
  Buffer<float> types_;
  std::shared_ptr<const ColumnParallelLinear> projection_;  // whole on every rank
  std::optional<AxialPositions> axial_;
  bool sinusoidal_;
  EmbeddingAdapters adapters_;
};

// Logits stay sharded: each rank computes the logits for its own part of the vocabulary.
class LmHead {
 public:
  // `bias`: [local_vocab], or empty. `scale` multiplies logits. With a softcap, they then become softcap *
  // tanh(logit / softcap).
  LmHead(std::shared_ptr<const VocabShard> shard, std::vector<float> bias, float scale,
         std::optional<float> softcap, HeadAdapters adapters = {})
      : shard_(std::move(shard)),
        bias_(std::move(bias)),
        scale_(scale),
        softcap_(softcap),
        adapters_(std::move(adapters)) {}

  Range tokens() const { return shard_->tokens(); }

  // hidden: [rows, hidden_size] -> [rows, local_vocab]
  TensorView<float> operator()(TensorView<const float> hidden, const StepContext& step) const;

 private:
  std::shared_ptr<const VocabShard> shard_;
  std::vector<float> bias_;
  float scale_;
  std::optional<float> softcap_;
  HeadAdapters adapters_;
};

}  // namespace tp
