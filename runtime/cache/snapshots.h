// Behind which tokens the states of recurrent layers are kept, for others to begin with.
#pragma once

#include "parallel/shard/shard.h"

#include <cstddef>
#include <optional>
#include <vector>

namespace tp {

// Every 16th block boundary; behind the eighth of these every 32nd one, behind the eighth of those every
// 64th, and so on: a text of any length has few snapshots, and less than a quarter of what it shares with
// another is computed again, or 16 blocks.
bool is_snapshot_boundary(std::size_t block);

struct SnapshotPositions {
  std::vector<std::size_t> kept{};  // ascending
  // The last one, unless it is kept: for as long as the sequence has no later snapshot, so that a
  // conversation goes on from the end of an answer, wherever that is.
  std::optional<std::size_t> latest{};
};

// The positions in (computed.begin, computed.end] behind which a sequence's state is kept: the boundaries
// above, the last one of the prompt whose next token is still the prompt's, and those of `others`, where
// sequences that are waiting leave its text; behind the prompt, every other boundary of a block as the
// latest.
SnapshotPositions snapshot_positions(Range computed, std::size_t prompt_tokens,
                                     const std::vector<std::size_t>& others, std::size_t block_size);

}  // namespace tp
