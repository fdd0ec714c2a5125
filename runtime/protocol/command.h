// The commands that rank 0 broadcasts and all ranks execute.
#pragma once

#include "runtime/cache/block_manager.h"
#include "runtime/protocol/encoded_input.h"
#include "tp/request.h"
#include "tp/token_id.h"

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

namespace tp {

// What the ranks need to know of a sequence, to compute it and to choose its tokens.
struct SequenceStart {
  SamplingParams sampling{};
  std::uint64_t seed = 0;    // of its random draws
  std::uint64_t sample = 0;  // which of the request's n continuations
  // The tokens before the sequence's first chunk, if penalties depend on them; its chunks contain the others.
  std::vector<TokenId> prefix{};
  std::uint64_t prompt_tokens = 0;  // the sequence's later tokens were generated
  EncodedInput input{};             // which is not counted among these, nor in the prefix
  AttentionMask attention = AttentionMask::causal;
  std::uint64_t attention_block = 1;  // of attention by blocks
  std::uint64_t context = 0;          // tokens that are seen, if not those up to the chunk's last one; else 0
};

// What a chunk does to the state cache, where layers are recurrent.
struct ChunkState {
  StateSlot slot = kNoSlot;  // the sequence's; a chunk from position 0 begins with zeros
  // The slot that is copied to it before the step: the state at the chunk's start position, where the
  // sequence does not continue from its last chunk.
  StateSlot from = kNoSlot;
  std::vector<StateSave> saves{};  // ascending, in the chunk
};

// Consecutive tokens of one sequence, to be computed in this step.
struct SequenceChunk {
  SequenceId sequence = 0;
  std::uint64_t start_position = 0;  // tokens of the sequence that are already in the cache
  std::uint32_t tokens = 0;
  // Blocks allocated since the sequence's last chunk, appended to its tables: the same number for every
  // group, group by group. kNoBlock where no later token attends.
  std::vector<BlockId> new_blocks{};
  ChunkState state{};
  // Set for its first chunk, and for the first one after a preemption: replaces all that the ranks know of
  // it.
  std::optional<SequenceStart> start{};
};

// What an Output can request for its rows.
namespace want {

// The next token, chosen according to the sequence's SamplingParams.
struct Choose {
  std::vector<TokenId> banned;  // tokens that must not be chosen in this step
  bool masked = false;          // the mask of allowed tokens is sent separately, when it is needed
};

// The `count` most likely tokens with their log-probabilities in the unmodified distribution, and optionally
// the entropy of that.
struct Candidates {
  std::uint32_t count = 0;
  bool entropy = false;
};

// A token per row, chosen according to the sequence's SamplingParams, and how sure the model is of it.
struct Guess {
  GuessSettings settings;
};

// The log-probability of one given token per row.
struct Score {
  std::vector<TokenId> targets;  // [rows]
};

// Whole rows of logits.
struct Logits {};

// The hidden states after the final norm.
struct Hidden {};

}  // namespace want

using Want =
    std::variant<want::Choose, want::Candidates, want::Score, want::Logits, want::Hidden, want::Guess>;

// Consecutive rows of a forward pass.
struct RowRange {
  std::uint32_t first = 0;
  std::uint32_t count = 1;
};

struct Output {
  SequenceId sequence = 0;
  RowRange rows;  // of the sequence's chunk, counted over all tokens of the pass
  Want want;
};

// One forward pass over a ragged batch.
struct Forward {
  std::vector<TokenId> tokens;  // of all chunks, concatenated
  // Of every token, as in Request; empty: 0 for all.
  std::vector<std::uint8_t> token_types{};
  std::vector<std::uint8_t> is_global{};
  std::vector<SequenceChunk> chunks;
  std::vector<Output> outputs;
  std::vector<SequenceId> ended;  // sequences that the ranks can drop
  bool in_halves = false;         // computed as two half-batches in turns, if it can be divided
  // Of a layer that reads states: a row reads what the layer itself has left of the row before, which was the
  // last one of its sequence's chunk; else what the model has left at the row's position.
  bool reads_own_states = false;
};

// A forward pass of the draft model, where all ranks run it.
struct DraftForward {
  Forward forward;
};

// Sends a RankReport to rank 0.
struct Report {};
// Resets the counters of communication and time.
struct ResetStatistics {};
// Measures what the machine reaches at best, for rank 0.
struct MeasurePeakRates {};
// Starts recording a trace.
struct StartTrace {};
// Sends the recorded trace to rank 0.
struct GatherTrace {};
// Ends the command loop; follow() returns rank 0's exit status.
struct Stop {
  std::int32_t exit_status = 0;
};

using Command = std::variant<Forward, DraftForward, Report, ResetStatistics, MeasurePeakRates, StartTrace,
                             GatherTrace, Stop>;

}  // namespace tp
