#pragma once

#include "parallel/shard/shard.h"

#include <cstddef>

namespace tp {

// A pipeline stage: a contiguous part of a model's layers. Each step passes through all stages in order. The
// ranks of a stage divide the heads and columns of its layers among themselves (TpRank). The first stage has
// the embedding, and the last stage has the LM head. Default: the whole model.
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
