// A sampler that sees whole rows. The ranks' choices must match its choices to the bit.
#pragma once

#include "runtime/sampling/candidates.h"
#include "runtime/sampling/random_draw.h"
#include "runtime/sampling/token_history.h"
#include "tp/request.h"

#include <span>
#include <vector>

namespace tp::reference {

struct Choice {
  TokenId id = -1;                         // -1: logits are NaN or infinite, or all tokens are ruled out
  float logprob = 0.0F;                    // in the model's own distribution
  std::vector<TokenLogprob> top_logprobs;  // params.logprobs tokens, the most likely first
};

// `logits`: [vocab_size]. Applies penalties, temperature, top-k, top-p and min-p, then draws.
Choice choose(std::span<const float> logits, const SamplingParams& params, const TokenHistory& history,
              const DrawKey& key);

}  // namespace tp::reference
