#include "runtime/engine/rank_sequences.h"

#include "runtime/engine/logit_ops.h"

#include <utility>

namespace tp {

Batch RankSequences::begin(const Forward& forward) {
  for (const SequenceId ended : forward.ended) sequences_.erase(ended);
  cut_.clear();
  Batch batch;
  batch.tokens = forward.tokens;
  batch.spans.resize(groups_);
  for (const SequenceChunk& chunk : forward.chunks) {
    Entry& entry = sequences_[chunk.sequence];
    if (chunk.start) {
      entry = Entry();
      entry.start = *chunk.start;
      entry.tables.resize(groups_);
    }
    entry.first_row = batch.positions.size();
    entry.start_position = chunk.start_position;
    begin_history(entry, chunk, std::span(forward.tokens).subspan(entry.first_row, chunk.tokens));
    lay_out(entry, chunk, batch);
  }
  return batch;
}

void RankSequences::lay_out(Entry& entry, const SequenceChunk& chunk, Batch& batch) const {
  const std::span<const BlockId> new_blocks(chunk.new_blocks);
  const std::size_t each = new_blocks.size() / groups_;
  for (std::size_t group = 0; group < groups_; ++group) {
    const auto added = new_blocks.subspan(group * each, each);
    std::vector<BlockId>& table = entry.tables[group];
    table.insert(table.end(), added.begin(), added.end());
    batch.spans[group].push_back({.first_token = entry.first_row,
                                  .tokens = chunk.tokens,
                                  .start_position = chunk.start_position,
                                  .block_table = table,
                                  .bidirectional = entry.start.attention == AttentionMask::bidirectional});
  }
  for (std::size_t token = 0; token < chunk.tokens; ++token)
    batch.positions.push_back(chunk.start_position + token);
}

void RankSequences::begin_history(Entry& entry, const SequenceChunk& chunk, std::span<const TokenId> tokens) {
  if (!needs_history(entry.start.sampling)) return;
  if (chunk.start) {
    entry.history = TokenHistory(entry.start.prompt_tokens);
    entry.history.append(std::exchange(entry.start.prefix, {}));
  }
  entry.history.truncate(chunk.start_position);
  entry.history.append(tokens);
}

std::size_t RankSequences::position_after(SequenceId id, std::size_t row) const {
  const Entry& entry = sequences_.at(id);
  return entry.start_position + (row - entry.first_row) + 1;
}

const TokenHistory& RankSequences::history_at(SequenceId id, std::size_t row) {
  const TokenHistory& history = sequences_.at(id).history;
  const std::size_t size = position_after(id, row);
  if (history.size() <= size) return history;
  cut_.push_back(history);
  cut_.back().truncate(size);
  return cut_.back();
}

}  // namespace tp
