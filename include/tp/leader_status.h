#pragma once

#include <cstddef>
#include <cstdint>

namespace tp {

// An engine's load, as known to rank 0 without asking the other ranks.
struct LeaderStatus {
  std::size_t queued = 0;       // continuations waiting to be scheduled
  std::size_t running = 0;      // continuations being computed
  std::size_t used_blocks = 0;  // of the KV cache: owned by running continuations
  std::size_t free_blocks = 0;  // the others, including those with cached prefixes
  // Since the engine was opened.
  std::uint64_t prefix_queries = 0;  // tokens looked up in the prefix cache
  std::uint64_t prefix_hits = 0;     // of these, tokens found there
  std::uint64_t preemptions = 0;     // continuations whose blocks were released, to be recomputed
  std::size_t last_step_tokens = 0;  // computed by the last step
};

}  // namespace tp
