// A model's embedding and LM head, which its multi-token prediction layer may share.
#pragma once

#include "model/config/spec.h"
#include "model/layers/embedding.h"
#include "model/weights/source/weight_source.h"
#include "parallel/shard/shard.h"

#include <memory>

namespace tp {

// Tables that a multi-token prediction layer shares with the model.
struct SameTables {
  bool embedding = false;
  bool head = false;
};

// This rank's rows of both tables; null: no table.
struct VocabTables {
  std::shared_ptr<const VocabShard> embedding{};
  std::shared_ptr<const VocabShard> head{};  // same as `embedding` if embeddings are tied

  VocabTables only(const SameTables& same) const {
    return {same.embedding ? embedding : nullptr, same.head ? head : nullptr};
  }
};

// Finds the tables that the checkpoint does not store for the layer, or stores as copies of the model's
// tables. Compares only this rank's rows. Throws CheckpointError.
SameTables same_tables(const DecoderSpec& layer, const WeightSource& source, TpRank tp);

}  // namespace tp
