#pragma once

#include <cstddef>
#include <cstdint>

namespace tp {

// The store of prompts on disk (EngineOptions::kv_store). Counts since the engine was opened; bytes and
// seconds are sums over ranks.
struct StoreStatus {
  bool is_open = false;
  bool writes = false;                 // false after an error
  std::uint64_t restored_prompts = 0;  // prompts of which a part was read
  std::uint64_t restored_tokens = 0;   // tokens that were read instead of computed
  std::uint64_t read_bytes = 0;
  double read_seconds = 0.0;
  std::uint64_t written_bytes = 0;
  double write_seconds = 0.0;
  std::uint64_t removed_bytes = 0;  // bytes removed to limit the size of the folder
  std::uint64_t dropped_runs = 0;   // runs and states that left the cache before they were written
  std::uint64_t damaged_files = 0;  // files that were ignored
  std::size_t waiting_runs = 0;     // runs and states that are not written yet
  std::size_t loading = 0;          // prompts being read
};

}  // namespace tp
