// A model's embedding and LM head, which its multi-token prediction layer may share.
#pragma once

#include "model/config/spec.h"
#include "model/layers/embedding.h"
#include "model/weights/source/weight_source.h"
#include "parallel/shard/shard.h"

#include <memory>

namespace tp {

// Whether a multi-token prediction layer shares the model's tables.
struct SameTables {
  bool embedding = false;
  bool head = false;
};

// This rank's rows of each table; null: no table.
struct VocabTables {
  std::shared_ptr<const VocabShard> embedding{};
  std::shared_ptr<const VocabShard> head{};  // same as `embedding` if embeddings are tied

  VocabTables only(const SameTables& same) const {
    return {same.embedding ? embedding : nullptr, same.head ? head : nullptr};
  }
};

// Finds the tables that a multi-token prediction layer can share. It can share a table if the checkpoint
// stores no separate one for the layer, or only a copy of the model's. Compares only this rank's rows. Throws
// CheckpointError.
SameTables same_tables(const ModelSpec& layer, const WeightSource& source, TpRank tp);

}  // namespace tp
