// A fake worker: it runs a leader's steps and only remembers which tokens were written to which cache
// position.
#pragma once

#include "runtime/protocol/command.h"
#include "runtime/protocol/outputs.h"
#include "tp/token_mask.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <span>
#include <unordered_map>
#include <vector>

#include <gtest/gtest.h>

namespace tp::test {

// Hashes these tokens. The hash determines the next token, and it identifies the contents of a cache
// position.
inline std::uint64_t digest(std::span<const TokenId> tokens) {
  std::uint64_t hash = 14695981039346656037ULL;
  for (const TokenId token : tokens) hash = (hash ^ static_cast<std::uint64_t>(token)) * 1099511628211ULL;
  return hash;
}
inline TokenId next_token(std::span<const TokenId> tokens) {
  return static_cast<TokenId>((digest(tokens) >> 40) % 97);
}
// Returns the fake model's continuation of these tokens alone.
inline std::vector<TokenId> continuation(std::vector<TokenId> tokens, std::size_t count) {
  std::vector<TokenId> generated;
  for (; count > 0; --count) {
    generated.push_back(next_token(tokens));
    tokens.push_back(generated.back());
  }
  return generated;
}
// Returns the log-probability of a token after other tokens.
inline double logprob_after(std::span<const TokenId> tokens, TokenId target) {
  return -1.0 - static_cast<double>((digest(tokens) + static_cast<std::uint64_t>(target)) % 1000);
}

// Every cache position holds all tokens up to its own. So the worker notices if a sequence reads blocks of
// another sequence, blocks that were overwritten, or blocks of other layers. In windowed layers, it checks
// only the positions in the window. Each slot of the state cache holds the tokens of its state.
class FakeWorker {
 public:
  explicit FakeWorker(std::size_t block_size, CacheWindows windows = {std::nullopt})
      : block_size_(block_size), windows_(std::move(windows)) {}

  // If a chunk contains this token, its sequence's logits become NaN.
  TokenId spoilt_token = -1;

  Outputs run(const Forward& forward) {
    for (const SequenceId ended : forward.ended) {
      EXPECT_EQ(sequences_.erase(ended), 1U) << "the ranks never heard of sequence " << ended;
    }
    std::size_t row = 0;
    rows_.clear();
    for (const SequenceChunk& chunk : forward.chunks) {
      if (chunk.state.from != kNoSlot) states_[chunk.state.slot] = states_[chunk.state.from];
    }
    for (const SequenceChunk& chunk : forward.chunks) {
      compute(chunk, std::span(forward.tokens).subspan(row, chunk.tokens));
      row += chunk.tokens;
    }
    EXPECT_EQ(row, forward.tokens.size());
    Outputs outputs;
    for (std::size_t i = 0; i < forward.outputs.size(); ++i) {
      const auto* choose = std::get_if<want::Choose>(&forward.outputs[i].want);
      if (choose != nullptr && choose->masked) mask_ = forward.masks(i);
      outputs.results.push_back(result_of(forward.outputs[i]));
    }
    return outputs;
  }

  // The contents of one cache position.
  struct Slot {
    std::size_t group = 0;
    std::uint64_t digest = 0;
    std::vector<TokenId> text{};
  };
  // Give tests of the prompt store access to cache positions and to states.
  Slot& slot_of(BlockId block, std::size_t i) {
    return cache_[static_cast<std::size_t>(block) * block_size_ + i];
  }
  std::vector<TokenId>& state_of(StateSlot slot) { return states_[slot]; }

  // Returns how many sequences the ranks know.
  std::size_t sequences() const { return sequences_.size(); }

 private:
  struct Sequence {
    std::vector<std::vector<BlockId>> tables;  // [groups]
    bool spoilt = false;
    bool bidirectional = false;  // bidirectional attention makes keys and values depend on later tokens
  };
  // One row of the pass, by its sequence and position.
  struct Row {
    SequenceId sequence = 0;
    std::size_t position = 0;
  };
  Slot& slot(const Sequence& sequence, std::size_t group, std::size_t position) {
    const auto block = static_cast<std::size_t>(sequence.tables[group].at(position / block_size_));
    return cache_[block * block_size_ + position % block_size_];
  }

  static std::uint64_t contents(const Sequence& sequence, std::span<const TokenId> tokens) {
    return digest(tokens) + (sequence.bidirectional ? 1 : 0);
  }

  // Does what every rank does: it appends to the block tables, writes the chunk's positions, and reads the
  // earlier positions that they attend to.
  void compute(const SequenceChunk& chunk, std::span<const TokenId> tokens) {
    EXPECT_EQ(chunk.start.has_value(), sequences_.count(chunk.sequence) == 0)
        << "sequence " << chunk.sequence << " begins twice, or never";
    Sequence& sequence = sequences_[chunk.sequence];
    if (chunk.start) sequence.bidirectional = chunk.start->bidirectional;
    add_blocks(sequence, chunk.new_blocks);
    ASSERT_LE(chunk.start_position + tokens.size(), sequence.tables[0].size() * block_size_)
        << "a short table";
    std::vector<TokenId> all = text_before(sequence, chunk.start_position);
    advance_state(chunk, all, tokens);
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      all.push_back(tokens[i]);
      for (std::size_t group = 0; group < windows_.size(); ++group)
        slot(sequence, group, chunk.start_position + i) = {group, contents(sequence, all), all};
      rows_.push_back({chunk.sequence, chunk.start_position + i});
      sequence.spoilt = sequence.spoilt || tokens[i] == spoilt_token;
    }
  }

  // `before`: the text before the chunk.
  void advance_state(const SequenceChunk& chunk, std::vector<TokenId> before,
                     std::span<const TokenId> tokens) {
    if (chunk.state.slot == kNoSlot) return;
    std::vector<TokenId>& state = states_[chunk.state.slot];
    if (before.empty()) state.clear();
    EXPECT_EQ(state, before) << "the state is that of another text at " << chunk.start_position;
    state.insert(state.end(), tokens.begin(), tokens.end());
    for (const StateSave& save : chunk.state.saves) {
      ASSERT_GT(save.position, chunk.start_position);
      ASSERT_LE(save.position, state.size());
      ASSERT_NE(save.slot, chunk.state.slot);
      states_[save.slot].assign(state.begin(), state.begin() + static_cast<std::ptrdiff_t>(save.position));
    }
  }

  void add_blocks(Sequence& sequence, std::span<const BlockId> blocks) {
    sequence.tables.resize(windows_.size());
    const std::size_t each = blocks.size() / windows_.size();
    EXPECT_EQ(each * windows_.size(), blocks.size()) << "tables differ in length";
    for (std::size_t group = 0; group < windows_.size(); ++group) {
      const auto added = blocks.subspan(group * each, each);
      sequence.tables[group].insert(sequence.tables[group].end(), added.begin(), added.end());
    }
  }

  // Returns the sequence's first `end` tokens, as the cache holds them, and checks every position that the
  // token at `end` attends to.
  std::vector<TokenId> text_before(const Sequence& sequence, std::size_t end) {
    if (end == 0) return {};
    const std::vector<TokenId> text = slot(sequence, 0, end - 1).text;
    EXPECT_EQ(text.size(), end) << "something else is at " << end - 1;
    for (std::size_t group = 0; group < windows_.size(); ++group) {
      const std::size_t window = windows_[group].value_or(end + 1);
      for (std::size_t position = end < window ? 0 : end + 1 - window; position < end; ++position) {
        const Slot& seen = slot(sequence, group, position);
        EXPECT_EQ(seen.group, group) << "layers of another group have written at " << position;
        EXPECT_EQ(seen.digest, contents(sequence, std::span(text).first(std::min(position + 1, text.size()))))
            << "something else is at " << position;
      }
    }
    return text;
  }

  Result result_of(const Output& output) {
    const Row& last = rows_.at(output.rows.first + output.rows.count - 1);
    EXPECT_EQ(last.sequence, output.sequence);
    const Sequence& sequence = sequences_.at(last.sequence);
    const std::vector<TokenId> tokens = text_before(sequence, last.position + 1);
    const auto until = [&](std::size_t row) {
      return std::span(tokens).first(tokens.size() - output.rows.count + row + 1);
    };
    if (const auto* score = std::get_if<want::Score>(&output.want)) {
      std::vector<double> logprobs;
      for (std::size_t i = 0; i < output.rows.count; ++i)
        logprobs.push_back(sequence.spoilt ? std::nan("") : logprob_after(until(i), score->targets.at(i)));
      return logprobs;
    }
    if (const auto* candidates = std::get_if<want::Candidates>(&output.want))
      return std::vector<RowCandidates>(output.rows.count,
                                        {.best = std::vector<TokenLogprob>(candidates->count)});
    if (std::holds_alternative<want::Logits>(output.want)) {
      WholeRows rows{.columns = 2};
      for (std::size_t i = 0; i < output.rows.count; ++i) {
        rows.values.push_back(static_cast<float>(until(i).size() - 1));
        rows.values.push_back(static_cast<float>(until(i).back()));
      }
      return rows;
    }
    Chosen chosen = choice(std::get<want::Choose>(output.want), next_token(tokens));
    if (sequence.spoilt) chosen.error = ChoiceError::not_numbers;
    return std::vector<Chosen>(output.rows.count, chosen);
  }

  // Returns `wished` or the first allowed token after it. Tokens from 97 on are chosen only under a mask.
  Chosen choice(const want::Choose& want, TokenId wished) const {
    const auto is_possible = [&](TokenId id) {
      const bool banned = std::ranges::find(want.banned, id) != want.banned.end();
      return !banned && (!want.masked || mask_.contains(id));
    };
    for (TokenId i = 0; i < 97; ++i) {
      if (const TokenId id = (wished + i) % 97; is_possible(id)) return {.id = id};
    }
    for (TokenId id = 97; want.masked && id < 200; ++id) {
      if (is_possible(id)) return {.id = id};
    }
    return {.error = ChoiceError::none_allowed};
  }

  std::size_t block_size_;
  CacheWindows windows_;
  std::unordered_map<SequenceId, Sequence> sequences_;
  std::unordered_map<std::size_t, Slot> cache_;  // key: block * block_size + slot
  std::unordered_map<StateSlot, std::vector<TokenId>> states_;
  std::vector<Row> rows_;  // rows of the current pass
  TokenMask mask_;         // mask of the current output
};

}  // namespace tp::test
