// Ranks choose together from rows that all of them know. Each rank looks only at its part.
#pragma once

#include "parallel/exchange/collectives.h"
#include "parallel/shard/shard.h"
#include "runtime/sampling/sharded_choice.h"
#include "tests/mpi_test.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace tp::test {

struct ChoiceCase {
  std::span<const float> logits;  // [vocab_size]
  SamplingParams params;
  const TokenHistory* history = nullptr;
  DrawKey key{};
  std::vector<TokenId> banned{};
  const TokenMask* allowed = nullptr;
};

// Returns the tokens that each rank owns: [ranks].
inline std::vector<Range> even_shards(const Communicator& comm, std::size_t vocab_size) {
  std::vector<Range> shards;
  for (std::size_t rank = 0; rank < comm.size(); ++rank)
    shards.push_back(shard_columns(vocab_size, {rank, comm.size()}));
  return shards;
}

// Returns rank 0's choices on every rank. All rows have the same number of tokens.
inline std::vector<Chosen> choose_together(Communicator& comm, std::span<const ChoiceCase> cases,
                                           std::span<const Range> shards) {
  const Range own = shards[comm.rank()];
  std::size_t largest = 0;
  for (const Range& shard : shards) largest = std::max(largest, shard.size());
  std::vector<ChoiceRow> rows;
  std::vector<ShardRowSize> sizes;
  for (const ChoiceCase& one : cases) {
    const LogitOps ops{.params = &one.params,
                       .history = needs_history(one.params) ? one.history : nullptr,
                       .bias = one.params.logit_bias,
                       .banned = one.banned,
                       .allowed = one.allowed};
    rows.push_back({one.logits.subspan(own.begin, own.size()), ops, &one.params, one.key});
    sizes.push_back(choice_size(one.params, largest));
  }
  ShardedChoice choice;
  const std::vector<ShardRow> parts = choice.contribute(comm, rows, static_cast<TokenId>(own.begin));
  const std::vector<std::vector<ShardRow>> all = gather_rows(comm, parts, sizes);
  std::vector<Chosen> chosen(cases.size());
  for (std::size_t i = 0; i < all.size(); ++i) chosen[i] = conclude_choice(rows[i], all[i]);

  // Sends rank 0's value to all ranks.
  const auto share = [&](auto& value) {
    broadcast_bytes(comm, std::as_writable_bytes(std::span(&value, 1)));
  };
  for (Chosen& one : chosen) {
    share(one.id);
    share(one.logprob);
    share(one.error);
    std::size_t top = one.top_logprobs.size();
    share(top);
    one.top_logprobs.resize(top);
    for (TokenLogprob& entry : one.top_logprobs) share(entry);
  }
  return chosen;
}

inline std::vector<Chosen> choose_together(std::span<const ChoiceCase> cases) {
  Communicator& comm = world();
  return choose_together(comm, cases, even_shards(comm, cases.front().logits.size()));
}

}  // namespace tp::test
