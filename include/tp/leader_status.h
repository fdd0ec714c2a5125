#pragma once

#include <cstddef>
#include <cstdint>

namespace tp {

// How busy an engine is: what rank 0 knows without asking the other ranks.
struct LeaderStatus {
  std::size_t queued = 0;       // continuations that wait to be worked on
  std::size_t running = 0;      // continuations that are worked on
  std::size_t used_blocks = 0;  // of the KV cache: owned by running continuations
  std::size_t free_blocks = 0;  // the others, those that keep the beginnings of prompts included
  // Since the engine was opened.
  std::uint64_t prefix_queries = 0;  // tokens that were looked up in the prefix cache
  std::uint64_t prefix_hits = 0;     // of them, those that it held
  std::uint64_t preemptions = 0;     // continuations that gave their blocks back and start again
  std::size_t last_step_tokens = 0;  // that the last step computed
};

}  // namespace tp
