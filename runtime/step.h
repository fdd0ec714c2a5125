// What rank 0 tells the other ranks to do next.
#pragma once

#include "runtime/block_manager.h"
#include "tp/token_id.h"

#include <cstdint>
#include <vector>

#include <boost/serialization/vector.hpp>

namespace tp {

// Consecutive tokens of one sequence, to be computed in this step.
struct SequenceChunk {
  SequenceId sequence = 0;
  std::uint64_t start_position = 0;  // tokens of the sequence that are in the cache already
  std::uint32_t tokens = 0;
  // Blocks that the sequence got since its last chunk, appended to its table. At its first chunk (again) the
  // table is replaced: these are all of its blocks.
  bool first_chunk = false;
  std::vector<BlockId> new_blocks;
};

// A token after which the next one is to be chosen.
struct OutputRow {
  std::uint32_t row = 0;         // of the step's tokens
  std::uint32_t candidates = 0;  // best tokens wanted from each rank; vocab_size: the whole row
  TokenId target = -1;           // without candidates: the one token whose logit is wanted; -1: none
};

// One forward pass over a ragged batch, or something else that all ranks do together.
struct Step {
  enum class Kind : std::uint8_t {
    forward,
    report,       // send a RankReport to rank 0
    reset_stats,  // count communication and time from here on
    start_trace,  // record what happens from here on
    trace,        // send what was recorded to rank 0
    stop,
  };

  Kind kind = Kind::forward;
  std::int32_t exit_status = 0;  // of a stop
  std::vector<TokenId> tokens;   // of all chunks, end to end
  std::vector<SequenceChunk> chunks;
  std::vector<OutputRow> outputs;
  std::vector<SequenceId> ended;  // whose tables can be forgotten

  template <class Archive>
  void serialize(Archive& archive, unsigned /*version*/) {
    archive& kind& exit_status& tokens& chunks& outputs& ended;
  }
};

}  // namespace tp

namespace boost::serialization {

template <class Archive>
void serialize(Archive& archive, tp::SequenceChunk& chunk, unsigned /*version*/) {
  archive& chunk.sequence& chunk.start_position& chunk.tokens& chunk.first_chunk& chunk.new_blocks;
}

template <class Archive>
void serialize(Archive& archive, tp::OutputRow& output, unsigned /*version*/) {
  archive& output.row& output.candidates& output.target;
}

}  // namespace boost::serialization
