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

// The next tokens if the constraint leaves no choice. They need no logits.
std::vector<TokenId> forced_next(const Sequence& sequence);

// Ends the sequence with an error.
TokenEvent fail(Sequence& sequence, std::string error);

// Appends a chosen token, which may end the sequence, or ends it with an error. `tokenizer` may be null.
TokenEvent accept(Sequence& sequence, const Chosen& chosen, const Tokenizer* tokenizer);

// Ends the sequence with an error if any log-probability of the prompt's tokens from `first` on is NaN.
std::optional<TokenEvent> check_logprobs(Sequence& sequence, std::size_t first,
                                         std::span<const double> logprobs);

}  // namespace tp
