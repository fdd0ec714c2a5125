// Chooses the tokens after which states of recurrent layers are kept for other sequences.
#pragma once

#include "parallel/shard/shard.h"

#include <cstddef>
#include <optional>
#include <vector>

namespace tp {

// Every 16th block boundary up to block 128, then every 32nd up to block 256, then every 64th up to block
// 512, and so on. So texts of any length have few snapshots, and less than a quarter of a shared prefix, or
// less than 16 blocks, is computed again.
bool is_snapshot_boundary(std::size_t block);

struct SnapshotPositions {
  std::vector<std::size_t> kept{};  // ascending
  // The last position, unless it is in `kept`. Its snapshot lives until the sequence has a later one, so that
  // a conversation continues from the end of an answer, wherever that is.
  std::optional<std::size_t> latest{};
};

// The positions in (computed.begin, computed.end] after which a sequence's state is kept: the boundaries
// above, the last boundary before the prompt's last token, and the positions in `others`, where waiting
// sequences diverge from its text. After the prompt, every further block boundary becomes the latest
// position.
SnapshotPositions snapshot_positions(Range computed, std::size_t prompt_tokens,
                                     const std::vector<std::size_t>& others, std::size_t block_size);

}  // namespace tp
