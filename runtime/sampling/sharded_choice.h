// Chooses tokens from sharded logits: every rank selects candidates from its own part of the vocabulary, and
// rank 0 chooses among these. No whole rows are communicated.
#pragma once

#include "runtime/protocol/outputs.h"
#include "runtime/sampling/logit_ops.h"
#include "runtime/sampling/random_draw.h"
#include "runtime/sampling/shard_row.h"
#include "tp/communicator.h"

#include <optional>
#include <span>
#include <vector>

namespace tp {

// A row to choose a token from. Everything but the logits is equal on every rank.
struct ChoiceRow {
  std::span<const float> logits;  // [local_vocab], before LogitOps
  LogitOps ops;
  const SamplingParams* params = nullptr;  // valid (SamplingParams::validate)
  DrawKey key;
  std::optional<float>
      row_max{};  // before LogitOps, if sums must not depend on the ranks: see exact_exp_sums
};

// Up to this top_k, every rank contributes its top_k tokens, and rank 0 chooses among them.
inline constexpr std::size_t kMaxGatheredTopK = 1024;

// The maximum that a rank contributes to a choice, with at most `largest_shard` tokens per rank.
ShardRowSize choice_size(const SamplingParams& params, std::size_t largest_shard);

// Keeps scratch memory between calls, so that choosing allocates little.
class ShardedChoice {
 public:
  // Collective. Returns what this rank, which owns the tokens from `first_id` on, contributes to the choices:
  // tokens, score and best, and the sums if log-probabilities are wanted. The order is: LogitOps; the most
  // likely token if temperature is 0; else temperature, top-k, top-p (of what top-k left, at least one),
  // min-p, and a draw from what is left, in proportion to the probabilities.
  //
  // Only for draws from more than kMaxGatheredTopK tokens do the ranks communicate before the gather: they
  // exchange the maximum logit of every row and, for top-p and a larger top-k, find the last token that is
  // kept (cut_vocabulary).
  std::vector<ShardRow> contribute(Communicator& comm, std::span<const ChoiceRow> rows, TokenId first_id);

 private:
  std::vector<std::vector<float>> changed_;  // logits after LogitOps, for rows that have any
};

// Rank 0: the choice from all ranks' contributions. It depends on the row alone, neither on the number of
// ranks nor on other rows.
Chosen conclude_choice(const ChoiceRow& row, std::span<const ShardRow> parts);

}  // namespace tp
