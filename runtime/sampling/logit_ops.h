// Changes to a row's logits before a token is chosen.
#pragma once

#include "runtime/sampling/token_history.h"
#include "tp/request.h"
#include "tp/token_mask.h"

#include <span>
#include <utility>
#include <vector>

namespace tp {

// Applied in this order: bias, penalties, banned tokens, the mask of allowed tokens.
struct LogitOps {
  const SamplingParams* params = nullptr;  // for the penalties
  const TokenHistory* history = nullptr;   // null: none
  std::span<const TokenId> later{};  // of the history's generated tokens, those that come after this row
  std::span<const LogitBias> bias{};
  std::span<const TokenId> banned{};
  const TokenMask* allowed = nullptr;  // null: all tokens

  bool any() const;
};

// Whether penalties are in effect, which depend on the sequence's tokens.
bool needs_history(const SamplingParams& params);

// Applies `ops` to the logits of the tokens [first_id, first_id + logits.size()), a part of the vocabulary.
void apply(const LogitOps& ops, TokenId first_id, std::span<float> logits);

}  // namespace tp
