// The NUMA nodes that a rank computes on, and the nodes that hold the rank's memory.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tp {

inline constexpr std::size_t kMaxNumaNodes = 64;

// Number of pages on each node, in a sample of resident pages.
struct NodePages {
  std::uint32_t on_node[kMaxNumaNodes] = {};

  std::uint64_t total() const {
    std::uint64_t sum = 0;
    for (const std::uint32_t pages : on_node) sum += pages;
    return sum;
  }
  // Fraction of pages outside `nodes` (bit n: node n). 0 if no pages were counted.
  double remote_share(std::uint64_t nodes) const {
    std::uint64_t remote = 0;
    for (std::size_t node = 0; node < kMaxNumaNodes; ++node)
      remote += (nodes >> node & 1) != 0 ? 0 : on_node[node];
    const std::uint64_t all = total();
    return all == 0 ? 0.0 : static_cast<double>(remote) / static_cast<double>(all);
  }
};

struct RankNuma {
  std::uint64_t nodes = 0;        // number of NUMA nodes on the host; 0: unknown
  std::uint64_t core_nodes = 0;   // bit n: the rank may run on cores of node n
  std::uint64_t pages_known = 0;  // 0: Linux does not report where pages are; the counts below are all 0
  NodePages weights;
  NodePages cache;   // KV cache: only pages written so far
  NodePages window;  // pages of the all-reduces' shared memory whose main reader is this rank
};

}  // namespace tp
