// Chooses tokens from sharded logits: every rank selects candidates from its own part of the vocabulary, and
// rank 0 chooses among the candidates. Whole rows are never communicated.
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
  std::optional<float> row_max{};  // before LogitOps; if set, sums do not depend on ranks: see exact_exp_sums
};

// Up to this top_k, every rank contributes its top_k tokens, and rank 0 chooses among them.
inline constexpr std::size_t kMaxGatheredTopK = 1024;

// The maximum that a rank contributes to a choice. `largest_shard`: most tokens on any rank.
ShardRowSize choice_size(const SamplingParams& params, std::size_t largest_shard);

// Keeps scratch memory between calls, so that choosing allocates little.
class ShardedChoice {
 public:
  // Collective. Returns this rank's contributions to the choices: tokens, score and best, and the sums if
  // log-probabilities are wanted. This rank owns the tokens from `first_id` on. LogitOps are applied first.
  // At temperature 0, the most likely token is chosen. Otherwise temperature, top-k, top-p (which keeps at
  // least one of the tokens that top-k kept) and min-p are applied, and a token is drawn from the rest in
  // proportion to the probabilities.
  //
  // Draws whose top_k is 0 or exceeds kMaxGatheredTopK need communication before the gather: ranks exchange
  // the maximum logit of every row, and for top-p or a larger top-k they find the last token that is kept
  // (cut_vocabulary).
  std::vector<ShardRow> contribute(Communicator& comm, std::span<const ChoiceRow> rows, TokenId first_id);

 private:
  std::vector<std::vector<float>> changed_;  // [rows]: logits after LogitOps
};

// Rank 0: makes the choice from all ranks' contributions. It depends only on the row, not on the number of
// ranks or on other rows.
Chosen conclude_choice(const ChoiceRow& row, std::span<const ShardRow> parts);

}  // namespace tp
