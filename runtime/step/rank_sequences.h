// A rank's record of the sequences, updated from the chunks that rank 0 sends.
#pragma once

#include "model/layers/linear/batch.h"
#include "runtime/protocol/command.h"
#include "runtime/sampling/token_history.h"

#include <cstddef>
#include <span>
#include <unordered_map>
#include <vector>

namespace tp {

class RankSequences {
 public:
  // `groups`: number of layer groups. The layers of a group share a block table.
  explicit RankSequences(std::size_t groups) : groups_(groups) {}

  // Updates the sequences of a forward pass, and turns the pass's tokens into a batch for the model.
  Batch begin(const Forward& forward);

  // For sequences of the current pass:
  const SequenceStart& start(SequenceId id) const { return sequences_.at(id).start; }
  // Converts a row of the pass to a row of the batch or, for an encoder's input, of Batch::inputs.
  std::size_t batch_row(SequenceId id, std::size_t row) const;
  // The position of the token that is chosen from a row: one after the row's own position.
  std::size_t position_after(SequenceId id, std::size_t row) const;
  // The tokens that penalties depend on: the sequence's tokens up to the end of its chunk. history_after()
  // returns only the tokens after a row. Valid during the pass.
  const TokenHistory& history(SequenceId id) const { return sequences_.at(id).history; }
  std::span<const TokenId> history_after(SequenceId id, std::size_t row) const;

 private:
  struct Entry {
    std::vector<std::vector<BlockId>> tables;  // [groups]
    SequenceStart start;                       // without the prefix, which moves to `history`
    TokenHistory history;                      // empty unless penalties need it
    std::size_t first_row = 0;                 // first row of the chunk in the pass
    std::size_t first_batch_row = 0;           // first row of the chunk in the batch or Batch::inputs
    std::size_t start_position = 0;            // first position of the chunk, not counting an encoder's input
  };

  void append_blocks(Entry& entry, const SequenceChunk& chunk) const;
  void lay_out(Entry& entry, const SequenceChunk& chunk, Batch& batch) const;
  static void lay_out_input(const Entry& entry, const SequenceChunk& chunk, Batch& inputs);
  static void lay_out_decoder(const Entry& entry, const SequenceChunk& chunk, Batch& batch);
  static void begin_history(Entry& entry, const SequenceChunk& chunk, std::span<const TokenId> tokens);

  std::size_t groups_;
  std::unordered_map<SequenceId, Entry> sequences_;
};

}  // namespace tp
