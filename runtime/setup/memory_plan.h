// Decides whether a model fits into the memory of its hosts, and how large its KV cache can be.
#pragma once

#include "parallel/exchange/placement.h"
#include "runtime/setup/footprint.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace tp {

// The parts of a need that MemoryNeed::with_blocks compares: the need while weights are loaded, and the later
// need without the cache.
constexpr std::uint64_t while_loading(const MemoryNeed& need) {
  return need.weights + need.other + need.loading;
}
constexpr std::uint64_t without_cache(const MemoryNeed& need) {
  return need.weights + need.workspace + need.states + need.other;
}

// A rank's report to rank 0.
struct RankMemory {
  MemoryNeed need;                // includes `beside`
  std::uint64_t memory = 0;       // bytes that the host's ranks may still use together
  std::uint64_t addresses = 0;    // bytes of address space that this rank may still use
  char memory_limit[128] = "";    // name of the limit of the host's memory
  std::uint64_t tensor_rank = 0;  // rank within the stage
  std::uint64_t stage = 0;
  MemoryNeed beside{};  // need of other things that this rank runs, such as a draft model
};

RankMemory describe_memory(const Footprint& footprint, TpRank tp, Stage stage = {},
                           const MemoryNeed& beside = {});

// Bytes of the hash tables that the ranks of a host map: those of each stage once. `host`: its ranks.
std::uint64_t tables_on(std::span<const RankMemory> ranks, std::span<const std::size_t> host);
// Whether a host has no room for these tables beside everything else, even without a cache.
bool lacks_room_for_tables(std::span<const RankMemory> ranks, const Placement& placement);

struct CachePlan {
  std::uint64_t blocks = 0;
  std::string notice;  // warning that the cache is smaller than intended, else empty
};

// Sizes the cache by the memory of all ranks. `tokens`: wanted tokens; 0: max_sequences sequences of maximum
// length, but at most half of the remaining memory. Throws ConfigError, with the numbers and possible
// remedies, if even a small cache does not fit.
CachePlan plan_cache(const EnginePlan& plan, const Footprint& footprint, std::span<const RankMemory> ranks,
                     const Placement& placement, std::size_t tokens);

}  // namespace tp
