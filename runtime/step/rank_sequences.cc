#include "runtime/step/rank_sequences.h"

#include "runtime/sampling/logit_ops.h"

#include <memory>
#include <utility>

namespace tp {
namespace {

void append_positions(std::size_t first, std::size_t count, Batch& batch) {
  for (std::size_t token = 0; token < count; ++token) batch.positions.push_back(first + token);
}

// Batch::adapters stays empty until a sequence has an adapter.
void append_adapter(std::uint32_t adapter, std::size_t tokens, Batch& batch) {
  if (adapter == 0 && batch.adapters.empty()) return;
  batch.adapters.resize(batch.positions.size() - tokens);
  batch.adapters.resize(batch.positions.size(), adapter);
}

}  // namespace

Batch RankSequences::begin(const Forward& forward) {
  for (const SequenceId ended : forward.ended) sequences_.erase(ended);
  Batch batch;
  Batch inputs;
  batch.types = forward.token_types;
  batch.is_global = forward.is_global;
  batch.spans.resize(groups_);
  std::size_t row = 0;
  for (const SequenceChunk& chunk : forward.chunks) {
    Entry& entry = sequences_[chunk.sequence];
    if (chunk.start) {
      entry = Entry();
      entry.start = *chunk.start;
      entry.tables.resize(groups_);
    }
    const EncodedInput& input = entry.start.input;
    const bool is_input = chunk.start_position < input.positions;
    const auto tokens = std::span(forward.tokens).subspan(row, chunk.tokens);
    Batch& part = is_input ? inputs : batch;
    entry.first_row = row;
    entry.first_batch_row = part.positions.size();
    entry.start_position = is_input ? 0 : chunk.start_position - input.positions;
    part.tokens.insert(part.tokens.end(), tokens.begin(), tokens.end());
    append_blocks(entry, chunk);
    if (is_input) {
      lay_out_input(entry, chunk, inputs);
    } else {
      begin_history(entry, chunk, tokens);
      if (input.tokens != 0)
        lay_out_decoder(entry, chunk, batch);
      else
        lay_out(entry, chunk, batch);
    }
    append_positions(entry.start_position, chunk.tokens, part);
    append_adapter(entry.start.adapter, chunk.tokens, part);
    row += chunk.tokens;
  }
  if (!batch.is_canvas.empty()) batch.is_canvas.resize(batch.tokens.size());
  if (!inputs.tokens.empty()) batch.inputs = std::make_shared<Batch>(std::move(inputs));
  return batch;
}

void RankSequences::append_blocks(Entry& entry, const SequenceChunk& chunk) const {
  const std::span<const BlockId> new_blocks(chunk.new_blocks);
  const std::size_t each = new_blocks.size() / groups_;
  for (std::size_t group = 0; group < groups_; ++group) {
    const auto added = new_blocks.subspan(group * each, each);
    std::vector<BlockId>& table = entry.tables[group];
    table.insert(table.end(), added.begin(), added.end());
  }
}

void RankSequences::lay_out(Entry& entry, const SequenceChunk& chunk, Batch& batch) const {
  for (std::size_t group = 0; group < groups_; ++group) {
    batch.spans[group].push_back({.first_token = entry.first_batch_row,
                                  .tokens = chunk.tokens,
                                  .start_position = chunk.start_position,
                                  .block_table = entry.tables[group],
                                  .bidirectional = entry.start.bidirectional,
                                  .causal_block = entry.start.attention_block,
                                  .context = entry.start.context,
                                  .canvas = entry.start.canvas.begin});
  }
  if (entry.start.canvas.exists()) {
    batch.is_canvas.resize(entry.first_batch_row);
    for (std::size_t i = 0; i < chunk.tokens; ++i)
      batch.is_canvas.push_back(chunk.start_position + i >= entry.start.canvas.begin ? 1 : 0);
  }
  if (chunk.state.slot != kNoSlot) {
    StateSpan& states = batch.states.emplace_back();
    states.slot = static_cast<std::size_t>(chunk.state.slot);
    for (const StateSave& save : chunk.state.saves)
      states.saves.push_back({save.position - chunk.start_position, static_cast<std::size_t>(save.slot)});
  }
}

// All layers of an encoder-decoder form one group.
void RankSequences::lay_out_input(const Entry& entry, const SequenceChunk& chunk, Batch& inputs) {
  inputs.spans.front().push_back({.first_token = entry.first_batch_row,
                                  .tokens = chunk.tokens,
                                  .start_position = 0,
                                  .block_table = entry.tables.front()});
}

// The blocks of the decoder's tokens come after the blocks of the input.
void RankSequences::lay_out_decoder(const Entry& entry, const SequenceChunk& chunk, Batch& batch) {
  const EncodedInput& input = entry.start.input;
  const std::span<const BlockId> table(entry.tables.front());
  batch.spans.front().push_back({.first_token = entry.first_batch_row,
                                 .tokens = chunk.tokens,
                                 .start_position = entry.start_position,
                                 .block_table = table.subspan(input.blocks)});
  batch.contexts.push_back({.first_token = entry.first_batch_row,
                            .tokens = chunk.tokens,
                            .start_position = 0,
                            .block_table = table.first(input.blocks),
                            .context = input.tokens});
}

void RankSequences::begin_history(Entry& entry, const SequenceChunk& chunk, std::span<const TokenId> tokens) {
  if (!needs_history(entry.start.sampling)) return;
  if (chunk.start || entry.start_position == 0) {
    entry.history = TokenHistory(entry.start.prompt_tokens);
    entry.history.append(std::exchange(entry.start.prefix, {}));
  }
  entry.history.truncate(entry.start_position);
  entry.history.append(tokens);
}

std::size_t RankSequences::batch_row(SequenceId id, std::size_t row) const {
  const Entry& entry = sequences_.at(id);
  return entry.first_batch_row + (row - entry.first_row);
}

std::size_t RankSequences::position_after(SequenceId id, std::size_t row) const {
  const Entry& entry = sequences_.at(id);
  return entry.start_position + (row - entry.first_row) + 1;
}

std::span<const TokenId> RankSequences::history_after(SequenceId id, std::size_t row) const {
  const TokenHistory& history = sequences_.at(id).history;
  return history.last(history.size() - position_after(id, row));
}

}  // namespace tp
