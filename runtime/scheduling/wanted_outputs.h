// The outputs of a sequence that a step requests from the ranks.
#pragma once

#include "runtime/protocol/command.h"
#include "runtime/scheduling/sequence.h"

#include <cstddef>
#include <span>
#include <vector>

namespace tp {

// Maximum of whole rows of logits per sequence and step, because rank 0 must store them. Indivisible
// sequences have one for each token.
inline constexpr std::size_t kMaxWholeRows = 64;

// How ranks compute the sequence and choose its tokens. Sent with its first chunk, which begins at
// `position`.
SequenceStart start_of(const Sequence& sequence, std::size_t position);

// The outputs of a chunk with the sequence's tokens [begin, end), followed by `drafts`. The chunk begins at
// `first_row` of the pass. Only the last token of a sequence that generates has drafts; each draft has an
// output, too, which chooses the token after it.
std::vector<Output> outputs_of(const Sequence& sequence, std::size_t begin, std::size_t end,
                               std::size_t first_row, std::span<const TokenId> drafts = {});

}  // namespace tp
