#include "runtime/engine/cache_shape.h"

#include <algorithm>
#include <ranges>

namespace tp {

std::size_t CacheShape::blocks_for(std::size_t tokens, std::size_t sequences) const {
  // That all groups' blocks can be counted.
  const std::size_t whole =
      std::min(tokens / block_size + (tokens % block_size != 0 ? 1 : 0), SIZE_MAX / windows.size());
  std::size_t blocks = 0;
  for (const CacheWindow& window : windows) {
    if (!window) {
      blocks += whole;
      continue;
    }
    // What the first token of a chunk sees and the chunk, wherever blocks begin.
    const std::size_t seen = *window - 1 + chunk;
    blocks += std::min(whole, sequences * ((seen + block_size - 2) / block_size + 1));
  }
  return blocks;
}

std::size_t CacheShape::tokens_in(std::size_t blocks, std::size_t sequences, std::size_t most) const {
  const auto counts = std::views::iota(std::size_t{0}, most + 1);
  const auto fit = [&](std::size_t tokens) { return blocks_for(tokens, sequences) <= blocks; };
  return *std::ranges::partition_point(counts, fit) - 1;
}

}  // namespace tp
