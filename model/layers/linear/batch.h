// The input of one step: concatenated tokens of several sequences.
#pragma once

#include "model/kernels/paged_cache.h"
#include "tp/token_id.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace tp {

// One span's slots in the state cache.
struct StateSpan {
  // A copy, in another slot, of the state after the span's first `tokens` tokens.
  struct Save {
    std::size_t tokens = 0;
    std::size_t slot = 0;
  };

  std::size_t slot = 0;       // state before the span; the step replaces it with the state after the span
  std::vector<Save> saves{};  // in ascending order of `tokens`
};

// A ragged batch. It may mix prefill chunks and single decode tokens; the model treats them alike.
struct Batch {
  std::vector<TokenId> tokens{};         // [tokens]
  std::vector<std::size_t> positions{};  // [tokens] index of each token in its sequence
  std::vector<std::uint8_t> types{};     // [tokens] token types; empty: all 0
  // [tokens] 1 for global tokens, which see and are seen by all tokens (only in models with windows); empty:
  // no global tokens.
  std::vector<std::uint8_t> is_global{};
  // [tokens] index + 1 of each token's adapter, 0: none; empty: no token has an adapter.
  std::vector<std::uint32_t> adapters{};
  // Layers that share block tables form a group. Each group has one span per sequence, in order; its spans
  // cover all tokens.
  std::vector<std::vector<kernels::AttentionSpan>> spans{{}};  // [groups][sequences]
  std::vector<StateSpan> states{};         // [sequences] if the model has recurrent layers; else empty
  std::vector<std::size_t> output_rows{};  // [outputs] rows whose logits are needed
  std::vector<std::size_t> hidden_rows{};  // rows whose hidden states are needed
  // Only for encoder-decoders; `tokens` belong to the decoder. `contexts`: for each sequence, a span of its
  // tokens, but with the keys of the encoded input. `inputs`: a batch of encoder inputs, which the step
  // encodes and caches first; null: nothing to encode.
  std::vector<kernels::AttentionSpan> contexts{};
  std::shared_ptr<Batch> inputs{};
  // [tokens] Only for multi-token prediction layers and drafters: the previous token's hidden state,
  // [hidden_size], or the streams of the target that a drafter reads, side by side. Only for models of
  // canvases: the token's soft embedding, [hidden_size]. The same on every rank; null means zeros.
  std::vector<const float*> states_before{};
  bool own_states = false;  // for drafters: states_before are the drafter's own, not the target's streams
  // [tokens] Memory for the streams that the model captures (Model::capture), side by side; empty: no memory.
  std::vector<float*> captured{};
  std::vector<std::uint8_t> is_canvas{};  // [tokens] 1 for tokens of a canvas; empty: no canvas
};

}  // namespace tp
