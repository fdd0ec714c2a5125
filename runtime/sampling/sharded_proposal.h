// Proposes tokens for masked positions from sharded logits. Every rank contributes its part's best token, and
// partial sums from which rank 0 computes the model's confidence. Whole rows are never communicated. Sums are
// exact, so equal logits give equal proposals on any number of ranks.
#pragma once

#include "runtime/sampling/random_draw.h"
#include "runtime/sampling/shard_row.h"
#include "tp/communicator.h"
#include "tp/unmasking.h"

#include <span>
#include <vector>

namespace tp {

// A row to propose a token from. Everything but the logits is equal on every rank.
struct ProposalRow {
  std::span<const float> logits{};         // [local_vocab]
  const SamplingParams* params = nullptr;  // valid; temperature, top_k and top_p apply
  DrawKey key{};
  ProposalSettings settings{};
  // [local_vocab], or empty: room for the tokens' weights, exp(logit - largest logit) of the distribution by
  // which confidence is measured. Weights below 2^-32 become 0, and so do all weights of an unusable row.
  std::span<float> weights{};
};

// The maximum that a rank contributes to a row: its proposal, and its two most likely tokens.
inline constexpr ShardRowSize kProposalSize = {.tokens = 1, .best = 2};

// Collective. Returns this rank's contributions to the proposals. This rank owns the tokens from `first_id`
// on.
std::vector<ShardRow> contribute_proposals(Communicator& comm, std::span<const ProposalRow> rows,
                                           TokenId first_id);

// Rank 0: makes the proposal from all ranks' contributions.
Proposal conclude_proposal(const ProposalRow& row, std::span<const ShardRow> parts);

}  // namespace tp
