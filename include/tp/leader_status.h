#pragma once

#include "tp/speculation.h"
#include "tp/store_status.h"

#include <cstddef>
#include <cstdint>

namespace tp {

// Number of finished continuations for each FinishReason. Continuations that could not start for lack of
// memory count as errors.
struct FinishCounts {
  std::uint64_t stop = 0;
  std::uint64_t length = 0;
  std::uint64_t cancelled = 0;
  std::uint64_t error = 0;

  std::uint64_t total() const { return stop + length + cancelled + error; }
};

// An engine's load. Rank 0 knows it without asking the other ranks.
struct LeaderStatus {
  std::size_t queued = 0;       // continuations waiting to be scheduled, including preempted ones
  std::size_t running = 0;      // continuations being computed: prefilling + decoding
  std::size_t prefilling = 0;   // running continuations whose prompt is being computed
  std::size_t decoding = 0;     // running continuations that generate tokens
  std::size_t used_blocks = 0;  // blocks of the KV cache owned by running continuations
  std::size_t free_blocks = 0;  // all other blocks, including blocks with cached prefixes
  std::size_t states = 0;       // number of recurrent states that fit in memory; 0: no recurrent layers
  std::size_t snapshots = 0;    // saved states, for later prompts with the same beginning
  // Requests that have not been scheduled yet (limited by EngineOptions::max_queue), and the tokens in their
  // prompts (limited by EngineOptions::max_queue_tokens).
  std::size_t queued_requests = 0;
  std::size_t queued_prompt_tokens = 0;
  // How many requests submit() accepts: now (queue_room) and when the engine is idle (max_queued). Both
  // include requests that can start immediately. SIZE_MAX without EngineOptions::max_queue.
  std::size_t queue_room = SIZE_MAX;
  std::size_t max_queued = SIZE_MAX;
  // Counts since the engine was opened.
  std::uint64_t prompt_tokens = 0;           // tokens of submitted prompts, each prompt counted once
  std::uint64_t computed_prompt_tokens = 0;  // without cached tokens; a preempted prompt counts again
  std::uint64_t generated_tokens = 0;
  FinishCounts finished;
  std::uint64_t prefix_queries = 0;  // prompt tokens looked up in the prefix cache
  std::uint64_t prefix_hits = 0;     // prompt tokens found in the prefix cache
  std::uint64_t snapshot_hits = 0;   // continuations that started from a snapshot
  std::uint64_t preemptions = 0;     // times that a continuation lost its blocks and had to be recomputed
  SpeculationCounts speculation;
  StoreStatus store;
  std::uint64_t steps = 0;
  std::size_t last_step_tokens = 0;  // tokens computed by the last step
  double last_step_seconds = 0.0;
  // Speeds of prompt processing and of token generation in recent steps. 0: not known yet.
  double prefill_tokens_per_second = 0.0;
  double decode_tokens_per_second = 0.0;
  // Predicted seconds until all queued continuations are done, 1 to 600. The prediction uses the two speeds
  // above and the average length of continuations so far.
  double retry_after_seconds = 1.0;
};

}  // namespace tp
