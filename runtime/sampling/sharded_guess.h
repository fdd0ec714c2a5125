// Guesses at masked tokens from sharded logits: every rank contributes the best of its part of the
// vocabulary, and its part of the sums by which rank 0 judges how sure the model is. No whole rows are
// communicated, and the sums are exact: the same logits give the same guesses on any number of ranks.
#pragma once

#include "runtime/sampling/random_draw.h"
#include "runtime/sampling/shard_row.h"
#include "tp/communicator.h"
#include "tp/unmasking.h"

#include <span>
#include <vector>

namespace tp {

// A row to guess a token from. Everything but the logits is equal on every rank.
struct GuessRow {
  std::span<const float> logits{};         // [local_vocab]
  const SamplingParams* params = nullptr;  // valid; temperature, top_k and top_p apply
  DrawKey key{};
  GuessSettings settings{};
};

// What a rank contributes to a row at most: its token, and the two most likely ones.
inline constexpr ShardRowSize kGuessSize = {.tokens = 1, .best = 2};

// Collective. What this rank, which owns the tokens from `first_id` on, contributes to the guesses.
std::vector<ShardRow> contribute_guesses(Communicator& comm, std::span<const GuessRow> rows,
                                         TokenId first_id);

// Rank 0: the guess from all ranks' contributions.
Guess conclude_guess(const GuessRow& row, std::span<const ShardRow> parts);

}  // namespace tp
