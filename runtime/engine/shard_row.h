// What rank 0 learns of a row of logits, whose vocabulary is spread over the ranks.
#pragma once

#include "runtime/engine/candidates.h"
#include "tp/communicator.h"
#include "tp/request.h"

#include <cstddef>
#include <limits>
#include <span>
#include <vector>

namespace tp {

// A token that may be chosen.
struct ShardToken {
  TokenId id = 0;
  float logit = 0.0F;  // after LogitOps
  float raw = 0.0F;    // the model's own
};

// One rank's part of a row.
struct ShardRow {
  bool usable = true;  // no logit is NaN or infinite; else the rest is empty
  ExpSums sums{};      // of the model's own logits, where log-probabilities are wanted
  double score = -std::numeric_limits<double>::infinity();  // of tokens[0], where the ranks draw
  std::vector<ShardToken> tokens{};
  std::vector<Candidate> best{};  // most likely in the model's own distribution
};

// How many tokens of each kind a rank contributes to a row at most; alike on every rank.
struct ShardRowSize {
  std::size_t tokens = 0;
  std::size_t best = 0;
};

// Collective. The parts of every row, [rows][ranks], on rank 0; nothing on the others. One gather.
std::vector<std::vector<ShardRow>> gather_rows(Communicator& comm, std::span<const ShardRow> rows,
                                               std::span<const ShardRowSize> sizes);

// Of all parts of a row.
bool usable(std::span<const ShardRow> parts);
ExpSums sums_of(std::span<const ShardRow> parts);
// The `count` most likely tokens with their log-probabilities, the most likely first.
std::vector<TokenLogprob> best_of(std::span<const ShardRow> parts, std::size_t count);

}  // namespace tp
