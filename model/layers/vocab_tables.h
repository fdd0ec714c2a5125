// A model's embedding and LM head, which its multi-token prediction layer may use, too.
#pragma once

#include "model/config/spec.h"
#include "model/layers/embedding.h"
#include "model/weights/source/weight_source.h"
#include "parallel/shard/shard.h"

#include <memory>

namespace tp {

// Which of the model's tables are such a layer's own ones as well.
struct SameTables {
  bool embedding = false;
  bool head = false;
};

// This rank's rows of both; null: none.
struct VocabTables {
  std::shared_ptr<const VocabShard> embedding{};
  std::shared_ptr<const VocabShard> head{};  // the embedding where they are tied

  VocabTables only(const SameTables& same) const {
    return {same.embedding ? embedding : nullptr, same.head ? head : nullptr};
  }
};

// Tables of which the checkpoint has none for the layer, and those of which it has a copy: this rank's rows
// are compared. Throws CheckpointError.
SameTables same_tables(const DecoderSpec& layer, const WeightSource& source, TpRank tp);

}  // namespace tp
