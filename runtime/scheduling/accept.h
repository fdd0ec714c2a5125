// Applies the ranks' results to a sequence.
#pragma once

#include "model/tokenizer/tokenizer.h"
#include "runtime/protocol/outputs.h"
#include "runtime/scheduling/sequence.h"
#include "tp/request.h"

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tp {

// The error of a sequence that ends for lack of memory.
inline constexpr const char* kOutOfMemory =
    "cannot continue the prompt: out of memory; send fewer or shorter requests at once, or use more hosts";

// The tokens that a constraint leaves no choice about, and that need no logits.
std::vector<TokenId> forced_next(const Sequence& sequence);

// Ends the sequence with an error.
TokenEvent fail(Sequence& sequence, std::string error);

// Appends a chosen token, which may end the sequence, or ends it with an error. `tokenizer` may be null.
TokenEvent accept(Sequence& sequence, const Chosen& chosen, const Tokenizer* tokenizer);

// Ends the sequence with an error if one of the log-probabilities of the prompt's tokens from `first` on is
// not a number.
std::optional<TokenEvent> check_logprobs(Sequence& sequence, std::size_t first,
                                         std::span<const double> logprobs);

}  // namespace tp
