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

// Error message for requests that run out of memory.
inline constexpr const char* kOutOfMemory =
    "cannot continue the prompt: out of memory; send fewer or shorter requests at once, or use more hosts";

// The tokens that must come next because the constraint leaves no choice. Empty if it leaves a choice,
// if there is no constraint, or if the request asks for log-probabilities, which need logits.
std::vector<TokenId> forced_tokens_next(const Sequence& sequence);

// Ends the sequence with an error, and returns the event to deliver.
TokenEvent fail(Sequence& sequence, std::string error);

// Appends a chosen token, which may end the sequence. If the choice failed, ends the sequence with an error.
// `tokenizer` may be null.
TokenEvent accept(Sequence& sequence, const Chosen& chosen, const Tokenizer* tokenizer);

// Appends the tokens that an earlier run of the request generated (Request::generated), as if the sequence
// had been preempted after them, and returns their events. Does not throw: if the tokens cannot be those of
// an earlier run, or memory runs out, the sequence ends with an error. `tokenizer` may be null.
std::vector<TokenEvent> replay(Sequence& sequence, const Tokenizer* tokenizer);

// The event for the scores of the prompt's next tokens, which follow recalled scores.
PromptLogprobs take_scores(Sequence& sequence, std::span<const double> logprobs);

// If `logprobs` contains NaN, ends the sequence with an error and returns the event to deliver. `logprobs[0]`
// belongs to token `first` of the prompt.
std::optional<TokenEvent> check_logprobs(Sequence& sequence, std::size_t first,
                                         std::span<const double> logprobs);

}  // namespace tp
