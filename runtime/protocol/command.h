// The commands that rank 0 broadcasts and all ranks execute.
#pragma once

#include "runtime/cache/block_manager.h"
#include "runtime/protocol/encoded_input.h"
#include "runtime/protocol/store_work.h"
#include "tp/request.h"
#include "tp/token_id.h"
#include "tp/token_mask.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <variant>
#include <vector>

namespace tp {

// The canvas at the end of a sequence, in a model of canvases.
struct PassCanvas {
  static constexpr std::uint64_t kNone = UINT64_MAX;

  std::uint64_t begin = kNone;  // position of the canvas's first token; kNone: there is no canvas
  // Identifies the canvas. Its tokens read the soft embeddings that the previous pass with this key has left,
  // if there are any.
  std::uint64_t key = 0;
  // For rank 0: the ranks have room for the canvas's soft embeddings, which other canvases may be waiting
  // for.
  bool has_room = false;
  bool has_next = false;  // the pass leaves soft embeddings for another pass

  bool exists() const { return begin != kNone; }
};

// The facts about a sequence that ranks need to compute it and to choose its tokens.
struct SequenceStart {
  SamplingParams sampling{};
  std::uint64_t seed = 0;    // seed of the sequence's random draws
  std::uint64_t sample = 0;  // index of the continuation among the request's n
  // The tokens before the sequence's first chunk, if penalties depend on them. Chunks contain the later
  // tokens.
  std::vector<TokenId> prefix{};
  std::uint64_t prompt_tokens = 0;    // later tokens of the sequence were generated
  EncodedInput input{};               // not counted in `prompt_tokens`, and not part of `prefix`
  bool bidirectional = false;         // each token attends to all tokens of its chunk, including later tokens
  std::uint64_t attention_block = 1;  // each token also attends to the rest of its block of this many tokens
  std::uint64_t context = 0;  // number of tokens that each token sees; 0: up to the chunk's last token
  PassCanvas canvas{};
  std::uint32_t adapter = 0;  // index + 1 among the engine's adapters; 0: none
};

// A chunk's use of the state cache, if layers are recurrent.
struct ChunkState {
  StateSlot slot = kNoSlot;  // the sequence's slot; a chunk from position 0 begins with zeros
  // Slot to copy to `slot` before the step: the state at the chunk's start position. Set if the sequence does
  // not continue from its last chunk.
  StateSlot from = kNoSlot;
  std::vector<StateSave> saves{};  // ascending positions in the chunk
};

// Consecutive tokens of one sequence, computed in this step.
struct SequenceChunk {
  SequenceId sequence = 0;
  std::uint64_t start_position = 0;  // number of the sequence's tokens already in the cache
  std::uint32_t tokens = 0;
  // Blocks allocated since the sequence's last chunk, appended to its tables: equally many for every group,
  // group by group. kNoBlock if no later token attends to the block.
  std::vector<BlockId> new_blocks{};
  ChunkState state{};
  // Set for the sequence's first chunk, and for the first chunk after a preemption. Replaces all facts that
  // the ranks know about the sequence.
  std::optional<SequenceStart> start{};
};

// The results that an Output can request for its rows.
namespace want {

// The next token, chosen by the sequence's SamplingParams.
struct Choose {
  std::vector<TokenId> banned;  // tokens that must not be chosen in this step
  bool masked = false;          // the mask of allowed tokens is sent separately, when it is needed
};

// The `count` most likely tokens with their log-probabilities in the unmodified distribution, and optionally
// the entropy of that distribution.
struct Candidates {
  std::uint32_t count = 0;
  bool entropy = false;
};

// A proposal per row: a token chosen by the sequence's SamplingParams, and the model's confidence.
struct Proposal {
  ProposalSettings settings;
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
    std::variant<want::Choose, want::Candidates, want::Score, want::Logits, want::Hidden, want::Proposal>;

// Consecutive rows of a forward pass.
struct RowRange {
  std::uint32_t first = 0;
  std::uint32_t count = 1;
};

struct Output {
  SequenceId sequence = 0;
  RowRange rows;  // rows of the sequence's chunk, counted over all tokens of the pass
  Want want;
};

// Returns a masked output's allowed tokens, possibly after waiting for them. Must not throw. An empty mask
// allows no token.
using MaskSource = std::function<TokenMask(std::size_t output)>;

// One forward pass over a ragged batch.
struct Forward {
  std::vector<TokenId> tokens;  // tokens of all chunks, concatenated
  // [tokens], as in Request; empty: 0 for all.
  std::vector<std::uint8_t> token_types{};
  std::vector<std::uint8_t> is_global{};
  std::vector<SequenceChunk> chunks;
  std::vector<Output> outputs;
  std::vector<SequenceId> ended;                // sequences that the ranks can drop
  std::vector<std::uint64_t> ended_canvases{};  // keys of canvases whose soft embeddings the ranks can drop
  bool in_halves = false;  // compute two half-batches alternately, if the batch can be divided
  // For a multi-token prediction layer. True: a row reads the layer's own state after the previous position,
  // which ended a chunk of its sequence. False: a row reads the model's state at the row's position.
  bool reads_own_states = false;
  // For a drafter of blocks: rows are positions of the context, whose keys and values are cached.
  bool gives_context = false;
  MaskSource masks{};  // rank 0 only; not sent to other ranks
};

// A forward pass of a draft model that all ranks run.
struct DraftForward {
  Forward forward;
};

// Sends a RankReport to rank 0.
struct Report {};
// Resets the counters of communication and time.
struct ResetStatistics {};
// Measures the machine's peak rates, for rank 0.
struct MeasurePeakRates {};
// Starts recording a trace.
struct StartTrace {};
// Sends the recorded trace to rank 0.
struct GatherTrace {};
// Ends the command loop. follow() returns rank 0's exit status.
struct Stop {
  std::int32_t exit_status = 0;
};

using Command = std::variant<Forward, DraftForward, Report, ResetStatistics, MeasurePeakRates, StartTrace,
                             GatherTrace, Stop, StoreWork>;

}  // namespace tp
