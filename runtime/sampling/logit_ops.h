// Changes to a row's logits before a token is chosen.
#pragma once

#include "runtime/sampling/token_history.h"
#include "tp/request.h"
#include "tp/token_mask.h"

#include <span>

namespace tp {

// Operations in the order of their application: bias, penalties, banned tokens, the mask of allowed tokens.
struct LogitOps {
  const SamplingParams* params = nullptr;  // source of the penalties
  const TokenHistory* history = nullptr;   // tokens that penalties count; null: no penalties
  std::span<const TokenId> later{};        // tokens that `history` contains although they follow this row
  std::span<const LogitBias> bias{};
  std::span<const TokenId> banned{};
  const TokenMask* allowed = nullptr;  // null: all tokens

  bool any() const;
};

// Whether any penalty, which depends on the sequence's tokens, is in effect.
bool needs_history(const SamplingParams& params);

// Applies `ops` to the logits of the tokens [first_id, first_id + logits.size()), a part of the vocabulary.
void apply(const LogitOps& ops, TokenId first_id, std::span<float> logits);

}  // namespace tp
