// The input of one step: tokens of several sequences laid end to end.
#pragma once

#include "model/kernels/paged_cache.h"
#include "tp/token_id.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace tp {

// The slots of the state cache that a span uses.
struct StateSpan {
  // A copy of the state after the first `tokens` of the span, kept in another slot.
  struct Save {
    std::size_t tokens = 0;
    std::size_t slot = 0;
  };

  std::size_t slot = 0;       // state before the span; the step replaces it with the state after the span
  std::vector<Save> saves{};  // in ascending order
};

// A ragged batch. Prefill chunks and single decode tokens mix freely; the model does not distinguish them.
struct Batch {
  std::vector<TokenId> tokens{};         // [tokens]
  std::vector<std::size_t> positions{};  // [tokens] place of each token in its sequence
  std::vector<std::uint8_t> types{};     // [tokens] if the model distinguishes types; empty: all 0
  // [tokens] 1 for global tokens, in models with windows: they see all tokens, and all see them; empty: none.
  std::vector<std::uint8_t> is_global{};
  // For each group of layers that share a block table: one span per sequence, in order, covering all tokens.
  std::vector<std::vector<kernels::AttentionSpan>> spans{{}};  // [groups][sequences]
  std::vector<StateSpan> states{};         // [sequences] if the model has recurrent layers; else empty
  std::vector<std::size_t> output_rows{};  // [outputs] rows whose logits are wanted
  std::vector<std::size_t> hidden_rows{};  // rows whose hidden states are wanted
  // For encoder-decoders, where `tokens` are the decoder's. `contexts`: the encoded input that each
  // sequence's tokens see. `inputs`: a batch of the inputs that the step encodes, into the blocks of
  // `contexts`; null: none.
  std::vector<kernels::AttentionSpan> contexts{};
  std::shared_ptr<Batch> inputs{};
  // [tokens] For a multi-token prediction layer: the hidden state after the previous token, [hidden_size]
  // each, equal on every rank; null: zeros.
  std::vector<const float*> states_before{};
};

}  // namespace tp
