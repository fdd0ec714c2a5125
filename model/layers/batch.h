// What one step computes: tokens of several sequences laid end to end.
#pragma once

#include "model/kernels/paged_cache.h"
#include "tp/token_id.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tp {

// A ragged batch. Prefill chunks and single decode tokens mix freely; the model does not distinguish them.
struct Batch {
  std::vector<TokenId> tokens{};         // [tokens]
  std::vector<std::size_t> positions{};  // [tokens] place of each token in its sequence
  // Of every group of layers that share a table: one per sequence, in order, covering all tokens.
  std::vector<std::vector<kernels::AttentionSpan>> spans{{}};  // [groups][sequences]
  std::vector<std::size_t> output_rows{};                      // [outputs] the tokens whose logits are wanted
  std::vector<std::size_t> hidden_rows{};                      // those whose hidden states are wanted
};

}  // namespace tp
