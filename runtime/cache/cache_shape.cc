#include "runtime/cache/cache_shape.h"

#include <algorithm>
#include <cstdint>

namespace tp {

std::size_t CacheShape::blocks_for(std::size_t tokens, std::size_t sequences) const {
  const std::size_t whole = std::min(whole_blocks(tokens), SIZE_MAX / windows.size());
  std::size_t blocks = 0;
  for (const CacheWindow& window : windows) {
    // The tokens that a chunk's first token attends to, plus the chunk, at the worst alignment to blocks.
    const std::size_t seen = window.value_or(1) - 1 + chunk;
    const std::size_t max = sequences * ((seen + block_size - 2) / block_size + 1);
    blocks += window ? std::min(whole, max) : whole;
  }
  return blocks;
}

std::size_t CacheShape::tokens_in(std::size_t blocks, std::size_t sequences, std::size_t longest) const {
  // If all layers have windows, a sequence can be longer than the blocks that it uses at any time.
  const std::size_t max = block_size * std::max(blocks, sequences * whole_blocks(longest));
  std::size_t fits = 0;
  for (std::size_t too_many = max + 1; too_many - fits > 1;) {
    const std::size_t middle = fits + (too_many - fits) / 2;
    (blocks_for(middle, sequences) <= blocks ? fits : too_many) = middle;
  }
  return fits;
}

}  // namespace tp
