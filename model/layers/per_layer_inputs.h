// Inputs of all layers, which depend on the tokens and their embeddings.
#pragma once

#include "model/layers/embedding.h"
#include "model/layers/linear/linear.h"
#include "model/layers/linear/norm.h"

#include <cstddef>

namespace tp {

// See PerLayerInputsSpec. Ids beyond the table, which stand for images and audio, use row 0. The table is
// sharded over the vocabulary and only read by rows. Every rank has the whole projection.
class PerLayerInputs {
 public:
  // Throws CheckpointError.
  PerLayerInputs(WeightLoader& loader, const PerLayerInputsSpec& spec, std::size_t layers,
                 std::size_t hidden_size, const PerLayerInputNames& names);

  std::size_t columns() const { return table_.weight().in_features(); }
  const VocabShard& table() const { return table_; }

  // Writes the inputs of the step's tokens to `out`, [tokens, layers * size], equal on every rank. embedding:
  // [tokens, hidden_size]. Collective unless `comm` is null (a shape-only step); throws CommError.
  void compute(Communicator* comm, TensorView<const float> embedding, const StepContext& step,
               TensorView<float> out) const;

 private:
  float table_scale_;
  float projection_scale_;
  VocabShard table_;  // [local vocab_size, layers * size]
  std::size_t vocab_size_;
  ColumnParallelLinear projection_;  // [layers * size, hidden_size]
  Norm norm_;                        // norm of each layer's part, [size]
};

}  // namespace tp
