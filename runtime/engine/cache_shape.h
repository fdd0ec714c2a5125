// What sequences take of the KV cache, in blocks.
#pragma once

#include "model/memory/cache_groups.h"

#include <cstddef>

namespace tp {

// The first position that a token at `position` sees.
constexpr std::size_t first_seen(CacheWindow window, std::size_t position) {
  return window && *window <= position ? position + 1 - *window : 0;
}

struct CacheShape {
  std::size_t block_size = 0;             // tokens
  std::size_t chunk = 0;                  // tokens of one sequence in a step at most
  CacheWindows windows = {std::nullopt};  // of the groups of layers

  // The most blocks that so many sequences can own together if they have `tokens` tokens, or that one can.
  std::size_t blocks_for(std::size_t tokens, std::size_t sequences = 1) const;

  // The most tokens that so many sequences can have together in so many blocks, or that one can, if none has
  // more than `longest`.
  std::size_t tokens_in(std::size_t blocks, std::size_t sequences, std::size_t longest) const;

 private:
  std::size_t whole_blocks(std::size_t tokens) const {
    return tokens / block_size + (tokens % block_size != 0 ? 1 : 0);
  }
};

}  // namespace tp
