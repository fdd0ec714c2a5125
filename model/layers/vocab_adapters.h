// The adapters of the embedding and of the LM head on this rank.
#pragma once

#include "model/layers/linear/layer_adapters.h"
#include "model/layers/linear/step_context.h"
#include "model/weights/local_weight.h"
#include "model/weights/weight_loader.h"
#include "parallel/shard/shard.h"
#include "tp/tensor.h"

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tp {

struct Adapter;

// A table of the vocabulary: a layer [vocab_size, size], of which this rank has the rows of `tokens`.
struct VocabLayer {
  std::string name;
  MatrixShape shape;
  Range tokens;
};

// Changes the vectors of tokens. The rank that owns a token replaces its vector, and adds its B A.
class EmbeddingAdapters {
 public:
  EmbeddingAdapters() = default;
  // Throws CheckpointError or ConfigError.
  EmbeddingAdapters(WeightLoader& loader, const VocabLayer& layer);

  // vectors: [tokens, size]; zeros for the tokens of other ranks.
  void apply(const StepContext& step, TensorView<float> vectors) const;

 private:
  struct Factors {
    std::vector<float> a;  // [own tokens, rank], times the scale; empty if only shapes are loaded
    LocalWeight b;         // [size, rank]
  };
  struct TableAdapter {
    std::size_t adapter = 0;           // index + 1
    std::optional<LocalWeight> saved;  // [own tokens, size], in place of the model's
    std::optional<Factors> factors;
  };

  static std::optional<Factors> load_factors(WeightLoader& loader, const Adapter& adapter,
                                             const VocabLayer& layer);
  void apply(const TableAdapter& adapter, std::span<const std::size_t> rows, const StepContext& step,
             TensorView<float> vectors) const;

  Range tokens_;
  std::vector<TableAdapter> all_;
};

// Changes logits: an adapter's own LM head replaces the model's, and factors add to it.
class HeadAdapters {
 public:
  HeadAdapters() = default;
  // Throws CheckpointError or ConfigError.
  HeadAdapters(WeightLoader& loader, const VocabLayer& layer);

  // hidden: [rows, size], logits: [rows, own tokens]
  void apply(TensorView<const float> hidden, const StepContext& step, TensorView<float> logits) const;

 private:
  struct Saved {
    std::size_t adapter = 0;  // index + 1
    LocalWeight weight;       // [own tokens, size]
  };

  std::vector<Saved> saved_;
  LayerAdapters factors_;
};

}  // namespace tp
