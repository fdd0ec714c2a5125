// The outputs of a sequence that a step requests from the ranks.
#pragma once

#include "runtime/protocol/command.h"
#include "runtime/scheduling/sequence.h"

#include <cstddef>
#include <span>
#include <vector>

namespace tp {

// Maximum whole rows of logits per sequence and step, as rank 0 has to store them. Indivisible sequences have
// as many as they have tokens.
inline constexpr std::size_t kMaxWholeRows = 64;

// How it is computed and its tokens are chosen; sent with its first chunk, which begins at `position`.
SequenceStart start_of(const Sequence& sequence, std::size_t position);

// The outputs of the chunk with the sequence's tokens [begin, end) and `drafts` behind them, which begins at
// `first_row` of the pass. With drafts, which are only behind the last token of a sequence that generates,
// there is a token to choose behind each of them, too.
std::vector<Output> outputs_of(const Sequence& sequence, std::size_t begin, std::size_t end,
                               std::size_t first_row, std::span<const TokenId> drafts = {});

}  // namespace tp
