// What a rank knows of the sequences: rank 0 tells it with the chunks.
#pragma once

#include "model/layers/batch.h"
#include "runtime/engine/command.h"
#include "runtime/engine/token_history.h"

#include <cstddef>
#include <deque>
#include <span>
#include <unordered_map>
#include <vector>

namespace tp {

class RankSequences {
 public:
  // `groups`: of layers that share a table.
  explicit RankSequences(std::size_t groups) : groups_(groups) {}

  // Takes what a pass says of its sequences, and lays its tokens out for the model.
  Batch begin(const Forward& forward);

  // Of a sequence of the pass:
  const SequenceStart& start(SequenceId id) const { return sequences_.at(id).start; }
  // The position behind a row of its chunk, which the next token gets.
  std::size_t position_after(SequenceId id, std::size_t row) const;
  // What penalties depend on when that token is chosen. Valid during the pass.
  const TokenHistory& history_at(SequenceId id, std::size_t row);

 private:
  struct Entry {
    std::vector<std::vector<BlockId>> tables;  // [groups]
    SequenceStart start;                       // without its prefix
    TokenHistory history;                      // empty unless penalties need it
    std::size_t first_row = 0;                 // of its chunk in the pass
    std::size_t start_position = 0;            // of its chunk
  };

  void lay_out(Entry& entry, const SequenceChunk& chunk, Batch& batch) const;
  static void begin_history(Entry& entry, const SequenceChunk& chunk, std::span<const TokenId> tokens);

  std::size_t groups_;
  std::unordered_map<SequenceId, Entry> sequences_;
  std::deque<TokenHistory> cut_;  // histories up to another row than the chunk's last
};

}  // namespace tp
