// A rank's state of the sequences, updated by the chunks that rank 0 sends.
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
  // `groups`: the number of groups of layers, each of which shares a block table.
  explicit RankSequences(std::size_t groups) : groups_(groups) {}

  // Updates the sequences of a pass, and lays out its tokens as the model's batch.
  Batch begin(const Forward& forward);

  // For sequences of the current pass:
  const SequenceStart& start(SequenceId id) const { return sequences_.at(id).start; }
  // Index of the pass's row in the batch, or in Batch::inputs.
  std::size_t batch_row(SequenceId id, std::size_t row) const;
  // The position after a row of its chunk, which is that of the token chosen from the row.
  std::size_t position_after(SequenceId id, std::size_t row) const;
  // The tokens of its chunk and those before, on which penalties depend, and of these the ones after a row.
  // Valid during the pass.
  const TokenHistory& history(SequenceId id) const { return sequences_.at(id).history; }
  std::span<const TokenId> history_after(SequenceId id, std::size_t row) const;

 private:
  struct Entry {
    std::vector<std::vector<BlockId>> tables;  // [groups]
    SequenceStart start;                       // without its prefix
    TokenHistory history;                      // empty unless penalties need it
    std::size_t first_row = 0;                 // first row in the pass,
    std::size_t first_batch_row = 0;           // and in the batch or its inputs
    std::size_t start_position = 0;  // position of its chunk; for encoder-decoders among the decoder's
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
