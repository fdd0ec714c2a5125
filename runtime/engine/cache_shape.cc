#include "runtime/engine/cache_shape.h"

#include <algorithm>
#include <ranges>

namespace tp {

std::size_t CacheShape::blocks_for(std::size_t tokens, std::size_t sequences) const {
  const std::size_t whole = std::min(whole_blocks(tokens), SIZE_MAX / windows.size());
  std::size_t blocks = 0;
  for (const CacheWindow& window : windows) {
    // What the first token of a chunk sees and the chunk, wherever blocks begin.
    const std::size_t seen = window.value_or(1) - 1 + chunk;
    const std::size_t most = sequences * ((seen + block_size - 2) / block_size + 1);
    blocks += window ? std::min(whole, most) : whole;
  }
  return blocks;
}

std::size_t CacheShape::tokens_in(std::size_t blocks, std::size_t sequences, std::size_t longest) const {
  // Where all layers have windows, blocks hold more tokens than they have room for at once.
  const std::size_t most = block_size * std::max(blocks, sequences * whole_blocks(longest));
  const auto fit = [&](std::size_t tokens) { return blocks_for(tokens, sequences) <= blocks; };
  return *std::ranges::partition_point(std::views::iota(std::size_t{0}, most + 1), fit) - 1;
}

}  // namespace tp
