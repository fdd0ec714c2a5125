// What is done to a row's logits before a token is chosen from them.
#pragma once

#include "runtime/engine/token_history.h"
#include "tp/request.h"
#include "tp/token_mask.h"

#include <span>
#include <utility>
#include <vector>

namespace tp {

// The order is: bias, penalties, tokens that are ruled out.
struct LogitOps {
  const SamplingParams* params = nullptr;  // for the penalties
  const TokenHistory* history = nullptr;   // null: none
  std::span<const LogitBias> bias{};
  std::span<const TokenId> banned{};
  const TokenMask* allowed = nullptr;  // null: all tokens

  bool any() const;
};

// Whether choosing like this depends on the tokens that the sequence holds.
bool needs_history(const SamplingParams& params);

// Applies them to the logits of the tokens [first_id, first_id + logits.size()), any part of the vocabulary.
void apply(const LogitOps& ops, TokenId first_id, std::span<float> logits);

}  // namespace tp
