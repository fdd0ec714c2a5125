// Attention to blocks of positions that an indexer has chosen. They form a block table, which attention reads
// like a whole sequence. If they do not consist of whole blocks of the cache, a bias hides the other
// positions.
#pragma once

#include "model/kernels/attention.h"
#include "model/kernels/paged_cache.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tp {

// The chosen blocks of a token as a sequence of their own, which ends with the last chosen position.
struct ShortSequence {
  std::vector<std::int32_t> table;  // blocks of the cache
  std::vector<float> bias;          // [places] or empty: -infinity for places that are not chosen
  std::size_t places = 0;
};

// chosen: the numbers of blocks of `chosen_size` positions, ascending. The token is at `position`, and sees
// no later ones. table: the cache blocks of its sequence.
ShortSequence sequence_of(std::span<const std::int32_t> chosen, std::size_t chosen_size, std::size_t position,
                          std::span<const std::int32_t> table, std::size_t block_size);

// Computes attention for consecutive tokens, from row `first_row` on, each to its sequence. `args` has no
// spans and no pattern.
void attend_to_sequences(kernels::AttentionArgs args, std::span<const ShortSequence> sequences,
                         std::size_t first_row);

}  // namespace tp
