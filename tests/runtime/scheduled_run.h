// A scheduler with a cache that remembers what was written where, instead of ranks and a model.
#pragma once

#include "runtime/scheduler.h"

#include <algorithm>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include <gtest/gtest.h>

namespace tp::test {

// The token after these, and an identification of what the cache must hold at the last of them.
inline std::uint64_t digest(std::span<const TokenId> tokens) {
  std::uint64_t hash = 14695981039346656037ULL;
  for (const TokenId token : tokens) hash = (hash ^ static_cast<std::uint64_t>(token)) * 1099511628211ULL;
  return hash;
}
inline TokenId next_token(std::span<const TokenId> tokens) {
  return static_cast<TokenId>(digest(tokens) >> 40) % 97;
}
// What a model would generate that saw nothing but this prompt.
inline std::vector<TokenId> continuation(std::vector<TokenId> tokens, std::size_t count) {
  std::vector<TokenId> generated;
  for (; count > 0; --count) {
    generated.push_back(next_token(tokens));
    tokens.push_back(generated.back());
  }
  return generated;
}

class ScheduledRun {
 public:
  struct Finished {
    std::vector<TokenId> generated;
    FinishReason reason = FinishReason::none;
  };

  ScheduledRun(std::size_t num_blocks, std::size_t block_size, SchedulerLimits limits)
      : limits_(limits), blocks_(num_blocks, block_size), scheduler_(blocks_, limits) {}

  // Returns the request's number; the samples have the sequence ids after it.
  std::uint64_t add(std::vector<TokenId> prompt, std::size_t max_tokens, int samples = 1) {
    auto state = std::make_shared<RequestState>();
    state->id = next_id_++;
    state->first_sequence = next_id_;
    state->max_tokens = max_tokens;
    state->request.prompt = prompt;
    state->request.n = samples;
    state->request.sampling.temperature = 0.0F;
    for (int sample = 0; sample < samples; ++sample) known_[next_id_++] = prompt;
    requests_[state->id] = state;
    scheduler_.add(state);
    return state->id;
  }

  // Plans a step, "runs" it, and appends a token to every sequence that gets one.
  Step step() {
    PlannedStep planned = scheduler_.plan();
    check_limits(planned);
    for (const SequenceId ended : planned.step.ended) tables_.erase(ended);
    std::size_t row = 0;
    for (const SequenceChunk& chunk : planned.step.chunks) {
      compute(chunk, std::span(planned.step.tokens).subspan(row, chunk.tokens));
      row += chunk.tokens;
    }
    EXPECT_EQ(row, planned.step.tokens.size());
    scheduler_.mark_computed();
    for (Sequence* sequence : planned.outputs) {
      sequence->tokens.push_back(next_token(sequence->tokens));
      if (sequence->generated_tokens() >= sequence->state->max_tokens) {
        sequence->finish_reason = FinishReason::length;
        const auto begin = sequence->tokens.begin() + static_cast<std::ptrdiff_t>(sequence->prompt_tokens);
        finished[{sequence->state->id, sequence->sample}] = {{begin, sequence->tokens.end()},
                                                             sequence->finish_reason};
      }
    }
    scheduler_.remove_finished();
    blocks_.check_invariants();
    most_blocks = std::max(most_blocks, blocks_.num_blocks() - blocks_.free_blocks());
    computed_tokens += planned.step.tokens.size();
    ++steps;
    return std::move(planned.step);
  }

  void run() {
    while (scheduler_.has_work()) {
      ASSERT_LT(steps, 100000U) << "it does not come to an end";
      step();
    }
  }

  // What holds on to the request: its sequences, and the queue while there are samples to come.
  std::size_t holders(std::uint64_t request) const {
    return static_cast<std::size_t>(requests_.at(request).use_count());
  }

  Scheduler& scheduler() { return scheduler_; }
  const BlockManager& blocks() const { return blocks_; }

  std::map<std::pair<std::uint64_t, int>, Finished> finished;  // by request and sample
  std::size_t steps = 0;
  std::size_t most_blocks = 0;      // owned at the end of a step
  std::size_t computed_tokens = 0;  // in all steps

 private:
  void check_limits(const PlannedStep& planned) const {
    const Step& step = planned.step;
    EXPECT_LE(step.tokens.size(), limits_.step_tokens);
    EXPECT_LE(step.chunks.size(), limits_.max_sequences);
    EXPECT_EQ(step.outputs.size(), planned.outputs.size());
    for (const SequenceChunk& chunk : step.chunks) EXPECT_LE(chunk.tokens, limits_.prefill_chunk);
    for (std::size_t i = 0; i < planned.outputs.size(); ++i) {
      ASSERT_LT(step.outputs[i].row, step.tokens.size());
      EXPECT_EQ(step.tokens[step.outputs[i].row], planned.outputs[i]->tokens.back());
    }
  }

  // As every rank does: keeps the table, writes the chunk's positions, then reads all up to them.
  void compute(const SequenceChunk& chunk, std::span<const TokenId> tokens) {
    const std::size_t block_size = blocks_.block_size();
    Table& table = tables_[chunk.sequence];
    if (chunk.first_chunk) table = {};
    table.blocks.insert(table.blocks.end(), chunk.new_blocks.begin(), chunk.new_blocks.end());
    const std::size_t end = chunk.start_position + tokens.size();
    ASSERT_LE(end, table.blocks.size() * block_size) << "the table is too short";
    const auto slot = [&](std::size_t position) -> std::uint64_t& {
      return cache_[static_cast<std::size_t>(table.blocks[position / block_size]) * block_size +
                    position % block_size];
    };
    // The tokens before the chunk, as the sequence has them: from earlier chunks or from a shared prefix.
    const std::vector<TokenId>& all = sequence_tokens(chunk.sequence, chunk.start_position, tokens);
    for (std::size_t position = chunk.start_position; position < end; ++position)
      slot(position) = digest(std::span(all).first(position + 1));
    for (std::size_t position = 0; position < end; ++position) {
      ASSERT_EQ(slot(position), digest(std::span(all).first(position + 1)))
          << "sequence " << chunk.sequence << " finds something else at position " << position;
    }
  }

  // A sequence's tokens up to the end of its chunk.
  const std::vector<TokenId>& sequence_tokens(SequenceId id, std::size_t start,
                                              std::span<const TokenId> chunk) {
    std::vector<TokenId>& all = known_[id];
    EXPECT_LE(start, all.size());
    for (std::size_t i = 0; i < chunk.size(); ++i) {
      if (start + i < all.size()) {
        EXPECT_EQ(all[start + i], chunk[i]);
      } else {
        all.push_back(chunk[i]);
      }
    }
    return all;
  }

  struct Table {
    std::vector<BlockId> blocks;
  };

  SchedulerLimits limits_;
  BlockManager blocks_;
  Scheduler scheduler_;
  std::unordered_map<SequenceId, Table> tables_;
  std::unordered_map<std::size_t, std::uint64_t> cache_;        // by block * block_size + slot
  std::unordered_map<SequenceId, std::vector<TokenId>> known_;  // prompts, and what was generated since
  std::unordered_map<std::uint64_t, std::weak_ptr<const RequestState>> requests_;
  std::uint64_t next_id_ = 1;
};

}  // namespace tp::test
