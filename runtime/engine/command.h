// What rank 0 tells all ranks to do next.
#pragma once

#include "runtime/engine/block_manager.h"
#include "tp/request.h"
#include "tp/token_id.h"

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

namespace tp {

// What the ranks keep of a sequence beside its blocks, to choose its tokens.
struct SequenceStart {
  SamplingParams sampling{};
  std::uint64_t seed = 0;    // of its draws
  std::uint64_t sample = 0;  // which of the request's n continuations
  // The sequence's tokens before its first chunk, if penalties depend on them; the chunks bring the others.
  std::vector<TokenId> prefix{};
  std::uint64_t prompt_tokens = 0;  // of the sequence; those behind them were generated
};

// Consecutive tokens of one sequence, to be computed in this step.
struct SequenceChunk {
  SequenceId sequence = 0;
  std::uint64_t start_position = 0;  // tokens of the sequence that are in the cache already
  std::uint32_t tokens = 0;
  // That the sequence got since its last chunk, appended to its tables: as many for every group, group by
  // group. kNoBlock where no token to come looks.
  std::vector<BlockId> new_blocks{};
  // At its first chunk, and at the first after it was preempted: whatever the ranks knew of it is replaced.
  std::optional<SequenceStart> start{};
};

// What can be wanted of the rows of a forward pass.
namespace want {

// The next token, chosen as the sequence's SamplingParams say.
struct Choose {
  std::vector<TokenId> banned;  // tokens that must not be chosen this time
  bool masked = false;          // a TokenMask of those that may follows, when it is needed
};

// The `count` most likely tokens with their log-probabilities in the model's own distribution, and that
// distribution's entropy.
struct Candidates {
  std::uint32_t count = 0;
  bool entropy = false;
};

// The log-probability of one given token for every row.
struct Score {
  std::vector<TokenId> targets;  // [rows]
};

// Whole rows of logits.
struct Logits {};

// The hidden states behind the final norm.
struct Hidden {};

}  // namespace want

using Want = std::variant<want::Choose, want::Candidates, want::Score, want::Logits, want::Hidden>;

// Consecutive rows of a forward pass.
struct RowRange {
  std::uint32_t first = 0;
  std::uint32_t count = 1;
};

struct Output {
  SequenceId sequence = 0;
  RowRange rows;  // of the sequence's chunk, as rows of all the pass's tokens
  Want want;
};

// One forward pass over a ragged batch.
struct Forward {
  std::vector<TokenId> tokens;  // of all chunks, end to end
  std::vector<SequenceChunk> chunks;
  std::vector<Output> outputs;
  std::vector<SequenceId> ended;  // that the ranks can drop
};

// Sends a RankReport to rank 0.
struct Report {};
// Counts communication and time from here on.
struct ResetStatistics {};
// Records what happens from here on.
struct StartTrace {};
// Sends what was recorded to rank 0.
struct GatherTrace {};
// The end: rank 0's program ends with this status.
struct Stop {
  std::int32_t exit_status = 0;
};

using Command = std::variant<Forward, Report, ResetStatistics, StartTrace, GatherTrace, Stop>;

}  // namespace tp
