// What the ranks are told of a sequence beside its tokens and blocks.
#pragma once

#include "runtime/engine/command.h"
#include "runtime/engine/sequence.h"

#include <cstddef>
#include <vector>

namespace tp {

// Rows of logits that come from one sequence in a step at most: rank 0 has to hold them.
inline constexpr std::size_t kMaxWholeRows = 64;

// How its tokens are chosen, told with a first chunk that begins at this position.
SequenceStart start_of(const Sequence& sequence, std::size_t position);

// What is wanted of the chunk of the sequence's tokens [begin, end), which begins at `first_row` of the pass.
std::vector<Output> outputs_of(const Sequence& sequence, std::size_t begin, std::size_t end,
                               std::size_t first_row);

}  // namespace tp
