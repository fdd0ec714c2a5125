// The input of one step: tokens of several sequences, end to end.
#pragma once

#include "model/kernels/paged_cache.h"
#include "tp/token_id.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace tp {

// The slots of the state cache that one span uses.
struct StateSpan {
  // A copy of the state after the first `tokens` tokens of the span, saved in another slot.
  struct Save {
    std::size_t tokens = 0;
    std::size_t slot = 0;
  };

  std::size_t slot = 0;       // state before the span; the step replaces it with the state after the span
  std::vector<Save> saves{};  // by ascending `tokens`
};

// A ragged batch. Prefill chunks and single decode tokens can be mixed; the model does not distinguish them.
struct Batch {
  std::vector<TokenId> tokens{};         // [tokens]
  std::vector<std::size_t> positions{};  // [tokens] index of each token in its sequence
  std::vector<std::uint8_t> types{};     // [tokens] if the model distinguishes types; empty: all 0
  // [tokens] 1: a global token, which sees all tokens and is seen by all tokens; only in models with windows;
  // empty: none.
  std::vector<std::uint8_t> is_global{};
  // For each group of layers with a common block table: one span per sequence, in order. The spans cover all
  // tokens.
  std::vector<std::vector<kernels::AttentionSpan>> spans{{}};  // [groups][sequences]
  std::vector<StateSpan> states{};         // [sequences] if the model has recurrent layers; else empty
  std::vector<std::size_t> output_rows{};  // [outputs] rows whose logits are needed
  std::vector<std::size_t> hidden_rows{};  // rows whose hidden states are needed
  // For encoder-decoders. `tokens` are then the decoder's tokens. `contexts`: for each sequence, a span of
  // the encoded input that its tokens see. `inputs`: a batch of encoder inputs; the step encodes them into
  // the blocks of `contexts`; null: none.
  std::vector<kernels::AttentionSpan> contexts{};
  std::shared_ptr<Batch> inputs{};
  // [tokens] For a multi-token prediction layer: the hidden state after the previous token, [hidden_size],
  // equal on every rank; null: zeros.
  std::vector<const float*> states_before{};
};

}  // namespace tp
