// The soft embeddings that passes over canvases read and leave, on a rank.
#pragma once

#include "model/layers/embedding.h"
#include "model/layers/linear/batch.h"
#include "model/memory/workspace.h"
#include "runtime/cache/soft_embeddings.h"
#include "runtime/protocol/command.h"
#include "runtime/step/rank_sequences.h"
#include "tp/communicator.h"
#include "tp/tensor.h"

#include <memory>
#include <span>
#include <vector>

namespace tp {

// A row of a pass that leaves soft embeddings for the next pass.
struct CanvasRow {
  std::uint64_t key = 0;
  std::size_t index = 0;  // position in the canvas
};

class CanvasStates {
 public:
  // `table`: this rank's token vectors.
  CanvasStates(SoftEmbeddings memory, std::shared_ptr<const VocabShard> table)
      : memory_(std::move(memory)), table_(std::move(table)) {}

  // Forgets ended canvases, and lets the batch's tokens read the soft embeddings of the previous pass.
  void begin(const Forward& forward, const RankSequences& sequences, Batch& batch);
  // Collective: computes the soft embeddings of rows from the weights of the ranks' tokens. weights: [rows,
  // local_vocab].
  void keep(Communicator& comm, std::span<const CanvasRow> rows, TensorView<const float> weights,
            Workspace& workspace);

 private:
  SoftEmbeddings memory_;
  std::shared_ptr<const VocabShard> table_;
};

}  // namespace tp
