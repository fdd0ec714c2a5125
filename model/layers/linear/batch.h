// The input of one step: tokens of several sequences laid end to end.
#pragma once

#include "model/kernels/paged_cache.h"
#include "tp/token_id.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace tp {

// Which slots of the state cache a span's tokens use.
struct StateSpan {
  // A copy of the state after the first `tokens` of the span, kept in another slot.
  struct Save {
    std::size_t tokens = 0;
    std::size_t slot = 0;
  };

  std::size_t slot = 0;  // holds the state before the span's first token, and then that behind its last one
  std::vector<Save> saves{};  // in ascending order
};

// A ragged batch. Prefill chunks and single decode tokens mix freely; the model does not distinguish them.
struct Batch {
  std::vector<TokenId> tokens{};         // [tokens]
  std::vector<std::size_t> positions{};  // [tokens] place of each token in its sequence
  std::vector<std::uint8_t> types{};     // [tokens] if the model distinguishes types; empty: all 0
  // [tokens] 1 for those that all see and that see all, in models with windows that have such; empty: none.
  std::vector<std::uint8_t> is_global{};
  // Spans of every group of layers that share a table: one per sequence, in order, covering all tokens.
  std::vector<std::vector<kernels::AttentionSpan>> spans{{}};  // [groups][sequences]
  std::vector<StateSpan> states{};         // one per sequence, of a model with recurrent layers
  std::vector<std::size_t> output_rows{};  // [outputs] the tokens whose logits are wanted
  std::vector<std::size_t> hidden_rows{};  // rows whose hidden states are wanted
  // For encoder-decoders, whose tokens are the decoder's: the part of its input that each sequence's tokens
  // see, and the inputs that the step encodes (null: none), a batch of their own, whose spans have the same
  // blocks.
  std::vector<kernels::AttentionSpan> contexts{};
  std::shared_ptr<Batch> inputs{};
  // [tokens] of a layer that predicts the token after the next one: the state of the model behind the token
  // before, [hidden_size] each, alike on every rank; null: zeros.
  std::vector<const float*> states_before{};
};

}  // namespace tp
