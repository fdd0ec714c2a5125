// The outputs of a sequence that a step requests from the ranks.
#pragma once

#include "runtime/protocol/command.h"
#include "runtime/scheduling/sequence.h"

#include <cstddef>
#include <span>
#include <vector>

namespace tp {

// Maximum number of whole rows of logits per sequence and step, because rank 0 must store them. Indivisible
// sequences may exceed this number, because they have a row for each token.
inline constexpr std::size_t kMaxWholeRows = 64;

// How ranks compute the sequence and choose its tokens. Sent with the sequence's first chunk, which begins at
// `position`.
SequenceStart start_of(const Sequence& sequence, std::size_t position);

// The outputs of a chunk with the sequence's tokens [begin, end), followed by `drafts`. The chunk begins at
// `first_row` of the pass. Drafts follow only the last token of a generating sequence. Each draft has an
// output, too, which chooses the token after the draft.
std::vector<Output> outputs_of(const Sequence& sequence, std::size_t begin, std::size_t end,
                               std::size_t first_row, std::span<const TokenId> drafts = {});

}  // namespace tp
