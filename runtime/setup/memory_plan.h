// Whether a model fits into the memory of its hosts, and how large a KV cache it can have there.
#pragma once

#include "parallel/exchange/placement.h"
#include "runtime/setup/footprint.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace tp {

// The parts of a need that MemoryNeed::with_blocks compares: what is there while weights are loaded, and what
// is there later, beside the cache.
constexpr std::uint64_t while_loading(const MemoryNeed& need) {
  return need.weights + need.other + need.loading;
}
constexpr std::uint64_t without_cache(const MemoryNeed& need) {
  return need.weights + need.workspace + need.states + need.other;
}

// What every rank reports to rank 0.
struct RankMemory {
  MemoryNeed need;                // with `beside`
  std::uint64_t memory = 0;       // bytes that the host's ranks may still take together
  std::uint64_t addresses = 0;    // bytes of address space that this rank may still use
  char memory_limit[128] = "";    // what the host's memory is limited by
  std::uint64_t tensor_rank = 0;  // among the ranks of its stage
  std::uint64_t stage = 0;
  MemoryNeed beside{};  // of something else that this rank runs, such as a draft model
};

RankMemory describe_memory(const Footprint& footprint, TpRank tp, Stage stage = {},
                           const MemoryNeed& beside = {});

struct CachePlan {
  std::uint64_t blocks = 0;
  std::string notice;  // says that the cache is smaller than intended, else empty
};

// Sizes the cache by the memory of all ranks: for `tokens` tokens, or with 0 for max_sequences of maximum
// length, but then at most half of the remaining memory. Throws ConfigError, with the numbers and what would
// fit, if there is no room even for a small cache.
CachePlan plan_cache(const EnginePlan& plan, const Footprint& footprint, std::span<const RankMemory> ranks,
                     const Placement& placement, std::size_t tokens);

}  // namespace tp
