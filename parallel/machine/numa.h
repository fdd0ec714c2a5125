// The NUMA nodes that this process and its memory use.
#pragma once

#include "tp/numa.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace tp {

// A node with processors, memory or both.
struct NumaNode {
  std::size_t id = 0;
  std::vector<std::size_t> processors;  // empty for a memory-only node
};

// The nodes of this machine, read from a sysfs folder. Empty if Linux does not list them, or if a node's
// number is kMaxNumaNodes or higher.
std::vector<NumaNode> numa_nodes(const std::filesystem::path& folder = "/sys/devices/system/node");

// Parses a list like "0-3,8-11". Empty if the list is malformed.
std::vector<std::size_t> parse_number_list(std::string_view text);

// The processors that any thread of this process may run on. OpenMP can bind each thread to different
// processors.
std::vector<std::size_t> processors_of_all_threads();

// Bit n is set if at least one of the processors is on node n.
std::uint64_t nodes_of(std::span<const std::size_t> processors, std::span<const NumaNode> nodes);

using MemoryRanges = std::vector<std::span<const std::byte>>;

// For each address, stores the node of its page in `nodes`, or a negative number if the page is not in
// memory. Returns false if nodes cannot be determined.
using PageQuery = std::function<bool(std::span<void*> addresses, std::span<int> nodes)>;

// Calls move_pages(2). Some sandboxes forbid this call (for example, Docker without the capability SYS_NICE),
// and kernels without NUMA support don't have it.
bool query_pages(std::span<void*> addresses, std::span<int> nodes);

// Enough pages to estimate a node's share to within two percentage points, in less than a millisecond.
inline constexpr std::size_t kSampledPages = 2048;

// Counts how many pages of the ranges are on each node, in an evenly spaced sample of at most `max` pages.
// Pages that are not in memory are not counted. nullopt if nodes cannot be determined.
std::optional<NodePages> count_pages(const MemoryRanges& ranges, const PageQuery& query = query_pages,
                                     std::size_t max = kSampledPages);

// The NUMA nodes of this process's threads, weights, cache and shared-memory window.
RankNuma describe_numa(const MemoryRanges& weights, const MemoryRanges& cache, const MemoryRanges& window);

}  // namespace tp
