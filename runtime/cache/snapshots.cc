#include "runtime/cache/snapshots.h"

#include <algorithm>

namespace tp {
namespace {

constexpr std::size_t kMinBlocks = 16;
constexpr std::size_t kMaxOfADistance = 8;

}  // namespace

bool is_snapshot_boundary(std::size_t block) {
  std::size_t distance = kMinBlocks;
  while (block > kMaxOfADistance * distance) distance *= 2;
  return block != 0 && block % distance == 0;
}

SnapshotPositions snapshot_positions(Range computed, std::size_t prompt_tokens,
                                     const std::vector<std::size_t>& others, std::size_t block_size) {
  const std::size_t prompt_end = prompt_tokens == 0 ? 0 : (prompt_tokens - 1) / block_size;
  SnapshotPositions positions;
  for (std::size_t block = computed.begin / block_size + 1; block * block_size <= computed.end; ++block) {
    const std::size_t position = block * block_size;
    if (block == prompt_end || is_snapshot_boundary(block) ||
        std::ranges::find(others, position) != others.end()) {
      positions.kept.push_back(position);
      positions.latest.reset();
    } else if (block > prompt_end) {
      positions.latest = position;
    }
  }
  return positions;
}

}  // namespace tp
