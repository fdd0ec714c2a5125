#include "model/layers/half_batches.h"

#include <algorithm>

namespace tp {
namespace {

using kernels::AttentionSpan;

bool can_be_divided(const Batch& batch) {
  if (batch.tokens.size() < 2 || batch.inputs || !batch.contexts.empty() || !batch.is_global.empty())
    return false;
  for (const std::vector<AttentionSpan>& group : batch.spans) {
    if (!std::ranges::all_of(group, &AttentionSpan::sees_only_backwards)) return false;
  }
  return std::ranges::is_sorted(batch.output_rows) && std::ranges::is_sorted(batch.hidden_rows);
}

// Splits per-token values at `cut`; `all` may be empty.
template <class T>
void divide(const std::vector<T>& all, std::size_t cut, std::vector<T>& first, std::vector<T>& second) {
  const auto middle = all.begin() + static_cast<std::ptrdiff_t>(std::min(cut, all.size()));
  first.assign(all.begin(), middle);
  second.assign(middle, all.end());
}

// Splits ascending rows at `cut`, which becomes row 0 of the second half.
void divide_rows(const std::vector<std::size_t>& rows, std::size_t cut, std::vector<std::size_t>& first,
                 std::vector<std::size_t>& second) {
  const auto middle = std::ranges::lower_bound(rows, cut);
  first.assign(rows.begin(), middle);
  for (auto row = middle; row != rows.end(); ++row) second.push_back(*row - cut);
}

// Number of the span's tokens that precede the cut.
std::size_t tokens_before(const AttentionSpan& span, std::size_t cut) {
  return std::clamp(cut, span.first_token, span.first_token + span.tokens) - span.first_token;
}

void divide_span(const AttentionSpan& span, std::size_t cut, std::vector<AttentionSpan>& first,
                 std::vector<AttentionSpan>& second) {
  const std::size_t before = tokens_before(span, cut);
  if (before > 0) {
    first.push_back(span);
    first.back().tokens = before;
  }
  if (before < span.tokens) {
    second.push_back(span);
    second.back().first_token += before;
    second.back().first_token -= cut;
    second.back().tokens -= before;
    second.back().start_position += before;
  }
}

// Splits a span's state. `before`: how many of the span's `tokens` precede the cut.
void divide_state(const StateSpan& state, std::size_t before, std::size_t tokens,
                  std::vector<StateSpan>& first, std::vector<StateSpan>& second) {
  if (before > 0) first.push_back({.slot = state.slot, .saves = {}});
  if (before < tokens) second.push_back({.slot = state.slot, .saves = {}});
  for (const StateSpan::Save& save : state.saves) {
    if (before > 0 && save.tokens <= before)
      first.back().saves.push_back(save);
    else
      second.back().saves.push_back({save.tokens - before, save.slot});
  }
}

}  // namespace

// Rounds up to whole kernel tiles, except for small batches.
std::size_t larger_half(std::size_t tokens) {
  constexpr std::size_t kTile = 16;
  const std::size_t half = (tokens + 1) / 2;
  return half < 2 * kTile ? half : (half + kTile - 1) / kTile * kTile;
}

std::optional<HalfBatches> halves_of(const Batch& batch) {
  if (!can_be_divided(batch)) return std::nullopt;
  const std::size_t cut = larger_half(batch.tokens.size());
  HalfBatches halves;
  auto& [first, second] = halves;
  divide(batch.tokens, cut, first.tokens, second.tokens);
  divide(batch.positions, cut, first.positions, second.positions);
  divide(batch.types, cut, first.types, second.types);
  divide(batch.adapters, cut, first.adapters, second.adapters);
  divide(batch.captured, cut, first.captured, second.captured);
  divide_rows(batch.output_rows, cut, first.output_rows, second.output_rows);
  divide_rows(batch.hidden_rows, cut, first.hidden_rows, second.hidden_rows);
  first.spans.resize(batch.spans.size());
  second.spans.resize(batch.spans.size());
  for (std::size_t group = 0; group < batch.spans.size(); ++group) {
    for (const AttentionSpan& span : batch.spans[group])
      divide_span(span, cut, first.spans[group], second.spans[group]);
  }
  for (std::size_t i = 0; i < batch.states.size(); ++i) {
    const AttentionSpan& span = batch.spans.front()[i];
    divide_state(batch.states[i], tokens_before(span, cut), span.tokens, first.states, second.states);
  }
  return halves;
}

}  // namespace tp
