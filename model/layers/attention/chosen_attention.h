// Attention to positions that an indexer has chosen.
#pragma once

#include "model/config/attention_spec.h"
#include "model/kernels/attention.h"
#include "model/layers/linear/step_context.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tp {

// Consecutive tokens of a span that see more positions than an indexer chooses.
struct ChosenGroup {
  const kernels::AttentionSpan* span;
  std::size_t first;  // index in the span
  std::size_t count;
  std::size_t number;  // number of the first token among all such tokens of the step

  std::size_t row() const { return span->first_token + first; }  // row of the first token in the batch
  std::size_t position(std::size_t token) const { return span->start_position + first + token; }
};

// Most tokens of a group: enough for all threads, and to read index keys less often.
std::size_t tokens_per_group();

// The first tokens of a span, which see at most `max` positions.
inline std::size_t dense_tokens(const kernels::AttentionSpan& span, std::size_t max) {
  return std::min(span.tokens, max - std::min(max, span.start_position));
}

// The tokens that see more than `max` positions, in rounds of TopLists::kTokens tokens. The rounds do not
// depend on the number of threads, which may differ between ranks.
std::vector<std::vector<ChosenGroup>> chosen_rounds(std::span<const kernels::AttentionSpan> spans,
                                                    std::size_t max);

// Room of the longest block table, in positions.
std::size_t max_positions(std::span<const kernels::AttentionSpan> spans, std::size_t block_size);

// The first `count` numbers of a token's part of step.chosen. `row`: of the batch.
inline std::span<std::int32_t> chosen_by(const StepContext& step, std::size_t row, std::size_t count) {
  return {reinterpret_cast<std::int32_t*>(step.chosen.row(row)), count};
}

// Computes attention for the tokens that see at most `max` positions. Returns whether the step may have
// other tokens, whose keys and values, of all ranks of the host, this rank can then read. `has_waited`:
// whether this rank has waited for them already. Throws CommError.
bool attend_if_short(const kernels::AttentionArgs& args, std::size_t max, bool has_waited,
                     const StepContext& step);

// Computes latent attention for all tokens of the step: tokens that see at most as many positions as the
// indexer chooses attend to all of them, other tokens to those in step.chosen. `args` has spans for all
// tokens. Throws CommError.
void attend_to_chosen(const kernels::AttentionArgs& args, const IndexerSpec& indexer,
                      const StepContext& step);

}  // namespace tp
