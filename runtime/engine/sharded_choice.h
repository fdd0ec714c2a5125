// Chooses tokens where the logits live: every rank looks at its own part of the vocabulary, and rank 0
// compares what the ranks found. No whole rows travel.
#pragma once

#include "runtime/engine/logit_ops.h"
#include "runtime/engine/outputs.h"
#include "runtime/engine/random_draw.h"
#include "runtime/engine/shard_row.h"
#include "tp/communicator.h"

#include <span>
#include <vector>

namespace tp {

// A row that a token is to be chosen from. All but the logits is alike on every rank.
struct ChoiceRow {
  std::span<const float> logits;  // [local_vocab] the model's own
  LogitOps ops;
  const SamplingParams* params = nullptr;  // valid (SamplingParams::validate)
  DrawKey key;
};

// top_k up to here: every rank contributes so many tokens, and rank 0 chooses among them.
inline constexpr std::size_t kMaxGatheredTopK = 1024;

// What a rank contributes to the choice at most, of a shard of at most `largest_shard` tokens.
ShardRowSize choice_size(const SamplingParams& params, std::size_t largest_shard);

// Holds scratch memory, so that choosing allocates little once it is warm.
class ShardedChoice {
 public:
  // Collective. Fills in what this rank, which owns the tokens from `first_id` on, contributes to the
  // choices: tokens, score and best, and the sums if log-probabilities are wanted. The order is: LogitOps;
  // the most likely token if temperature is 0; else temperature, top-k, top-p (of what top-k left, at least
  // one), min-p, and a draw from what is left, in proportion to the probabilities.
  //
  // Only draws from more than kMaxGatheredTopK tokens need the ranks to exchange anything before the gather:
  // the greatest logit of every row and, for top-p and a larger top-k, where their tokens end
  // (cut_vocabulary).
  std::vector<ShardRow> contribute(Communicator& comm, std::span<const ChoiceRow> rows, TokenId first_id);

 private:
  std::vector<std::vector<float>> changed_;  // logits after LogitOps, of the rows that have any
};

// Rank 0: the choice from all ranks' contributions. It depends on the row alone, not on the number of ranks,
// nor on other rows.
Chosen conclude_choice(const ChoiceRow& row, std::span<const ShardRow> parts);

}  // namespace tp
