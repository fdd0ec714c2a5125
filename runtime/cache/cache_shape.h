// Computes how many blocks of the KV cache sequences need.
#pragma once

#include "model/memory/cache_groups.h"

#include <cstddef>

namespace tp {

// The first position that a token at `position` attends to.
constexpr std::size_t first_seen(CacheWindow window, std::size_t position) {
  return window && *window <= position ? position + 1 - *window : 0;
}

// Which blocks have the same owner among the ranks that keep one copy of the cache.
struct BlockOwners {
  // The cache consists of this many equal runs of blocks, which have different owners. If ranks own unequal
  // parts, this is true of most blocks of a run.
  std::size_t count = 1;
  std::size_t together = 1;  // consecutive blocks of a sequence that should have the same owner
};

struct CacheShape {
  std::size_t block_size = 0;             // tokens
  std::size_t chunk = 0;                  // maximum tokens of one sequence per step
  CacheWindows windows = {std::nullopt};  // window of each group of layers
  std::size_t states = 0;                 // slots of the state cache, if layers are recurrent
  BlockOwners owners{};

  // Maximum number of blocks of `sequences` sequences with `tokens` tokens in total. Assumes that only one
  // sequence has a partly filled last block.
  std::size_t blocks_for(std::size_t tokens, std::size_t sequences = 1) const;

  // Maximum total number of tokens of `sequences` sequences in `blocks` blocks, if no sequence is longer than
  // `longest`. Inverse of blocks_for.
  std::size_t tokens_in(std::size_t blocks, std::size_t sequences, std::size_t longest) const;

 private:
  std::size_t whole_blocks(std::size_t tokens) const {
    return tokens / block_size + (tokens % block_size != 0 ? 1 : 0);
  }
};

}  // namespace tp
