// The ranks' contributions to a row of logits whose vocabulary is sharded over the ranks.
#pragma once

#include "runtime/sampling/candidates.h"
#include "tp/communicator.h"
#include "tp/request.h"

#include <cstddef>
#include <limits>
#include <span>
#include <vector>

namespace tp {

// A token to choose from.
struct ShardToken {
  TokenId id = 0;
  float logit = 0.0F;  // after LogitOps
  float raw = 0.0F;    // before LogitOps
};

// One rank's part of a row.
struct ShardRow {
  bool usable = true;  // false: a logit is NaN or +infinity, and the rest is empty
  ExpSums sums{};      // sums of the logits before LogitOps, if log-probabilities are wanted
  double score = -std::numeric_limits<double>::infinity();  // score of tokens[0], if the ranks draw
  std::vector<ShardToken> tokens{};
  std::vector<Candidate> best{};  // most likely before LogitOps
};

// Maximum number of tokens of each kind that a rank contributes to a row. Equal on every rank.
struct ShardRowSize {
  std::size_t tokens = 0;
  std::size_t best = 0;
};

// Collective, one gather. Returns the parts of every row, [rows][ranks], on rank 0, and nothing on other
// ranks.
std::vector<std::vector<ShardRow>> gather_rows(Communicator& comm, std::span<const ShardRow> rows,
                                               std::span<const ShardRowSize> sizes);

// Combine the parts of a row.
bool usable(std::span<const ShardRow> parts);
ExpSums sums_of(std::span<const ShardRow> parts);
// The `count` most likely tokens with their log-probabilities, most likely first.
std::vector<TokenLogprob> best_of(std::span<const ShardRow> parts, std::size_t count);

}  // namespace tp
