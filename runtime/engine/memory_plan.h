// Whether a model fits into the memory of its hosts, and how large a KV cache it can have there.
#pragma once

#include "parallel/placement.h"
#include "runtime/engine/footprint.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace tp {

// What rank 0 learns of a rank.
struct RankMemory {
  MemoryNeed need;
  std::uint64_t memory = 0;     // bytes that the host's ranks may still take together
  std::uint64_t addresses = 0;  // bytes of address space that this rank may still use
  char memory_limit[128] = "";  // what the host's memory is limited by
};

RankMemory describe_memory(const Footprint& footprint, TpRank tp);

struct CachePlan {
  std::uint64_t blocks = 0;
  std::string notice;  // that the cache is smaller than it should be; empty if it is not
};

// The cache that the memory of all ranks allows: of `tokens`, or with 0 of what all sequences can have
// together, but no more than half of what weights leave. Throws ConfigError, with the numbers and what would
// fit, if there is no room for a short sequence.
CachePlan plan_cache(const EnginePlan& plan, const Footprint& footprint, std::span<const RankMemory> ranks,
                     const Placement& placement, std::size_t tokens);

}  // namespace tp
