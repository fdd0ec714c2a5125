// The outputs that a step requests from the ranks for a sequence.
#pragma once

#include "runtime/protocol/command.h"
#include "runtime/scheduling/sequence.h"

#include <cstddef>
#include <span>
#include <vector>

namespace tp {

// Maximum number of whole rows of logits per sequence and step, to limit rank 0's memory use. Indivisible
// sequences may exceed the limit, because they need a row for each token.
inline constexpr std::size_t kMaxWholeRows = 64;

// Tells ranks how to compute the sequence and choose its tokens. Sent with the sequence's first chunk, which
// begins at `position`.
SequenceStart start_of(const Sequence& sequence, std::size_t position);

// The outputs of a chunk with the sequence's tokens [begin, end), followed by `drafts`. The chunk begins at
// row `first_row` of the forward pass. Drafts follow only the last token of a generating sequence. Each draft
// also has an output, which chooses the token after the draft.
std::vector<Output> outputs_of(const Sequence& sequence, std::size_t begin, std::size_t end,
                               std::size_t first_row, std::span<const TokenId> drafts = {});

}  // namespace tp
