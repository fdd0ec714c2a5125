// The memory and time that each rank used.
#pragma once

#include "tp/numa.h"

#include <cstdint>
#include <optional>
#include <span>

namespace tp {

// A rank's time in seconds. The parts add up to the total.
struct TimeParts {
  double compute = 0.0;      // running the model itself
  double collectives = 0.0;  // exchanging data with other ranks
  double waiting = 0.0;      // waiting for slower ranks to begin an exchange
  double sampling = 0.0;     // choosing and detokenizing tokens, or waiting while rank 0 does so
  double control = 0.0;      // between steps: planning, broadcasting commands, the caller's own code

  double total() const { return compute + collectives + waiting + sampling + control; }
};

// One rank's statistics since the engine was created or Engine::reset_statistics() was called.
struct RankReport {
  char host[64] = "";
  std::uint64_t cores = 0;  // cores that the rank may use
  std::uint64_t threads = 0;
  std::uint64_t weight_bytes = 0;  // weights in memory
  std::uint64_t bytes_used = 0;    // bytes of checkpoint tensors that the rank used
  // Bytes read from storage while loading. Less than bytes_used if part of the data was already in memory;
  // more if the kernel read whole pages or read ahead. Unset if the kernel does not report this number.
  std::optional<std::uint64_t> bytes_from_storage;
  std::uint64_t cache_bytes = 0;  // bytes of the cache when it is full
  std::uint64_t workspace_bytes = 0;
  std::uint64_t peak_resident_bytes = 0;
  std::uint64_t steps = 0;
  std::uint64_t all_reduces = 0;
  std::uint64_t all_reduce_bytes = 0;
  double all_reduce_seconds = 0.0;  // including waiting
  // Bytes sent and time spent by all-reduces between hosts. 0 except on the one rank per host that exchanges
  // the host's sums.
  std::uint64_t wire_bytes = 0;
  double wire_seconds = 0.0;
  // All-reduces whose values may be too large to add exactly; 0 without EngineOptions::same_bits.
  std::uint64_t inexact_sums = 0;
  double gather_seconds = 0.0;  // other collectives during steps, including waiting
  TimeParts time;
  RankNuma numa;
};

// The mean of each part over all ranks. `reports` must not be empty.
TimeParts mean_time(std::span<const RankReport> reports);

// The index of the slowest rank, which waits least for other ranks.
std::size_t slowest_rank(std::span<const RankReport> reports);

}  // namespace tp
