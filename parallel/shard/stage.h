// Pipelines: which layers of a model a group of ranks has.
#pragma once

#include "parallel/shard/shard.h"

#include <cstddef>

namespace tp {

// A contiguous part of a model's layers. Each step passes through all stages, one after the other; the ranks
// of a stage divide its layers' heads and columns among them (TpRank). The first stage has the embedding, the
// last one the LM head. By default: the whole model.
struct Stage {
  std::size_t index = 0;
  std::size_t count = 1;

  bool is_first() const { return index == 0; }
  bool is_last() const { return index + 1 == count; }
  bool is_whole() const { return count == 1; }
  Range layers(std::size_t num_hidden_layers) const {
    return split_evenly(num_hidden_layers, {.rank = index, .size = count});
  }
};

}  // namespace tp
