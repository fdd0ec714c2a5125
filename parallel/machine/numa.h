// The NUMA nodes of this process and of its memory.
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
  std::vector<std::size_t> processors;  // empty for a node that only adds memory
};

// The nodes of this machine, read from a folder of sysfs. Empty if Linux does not list them, or if a node's
// number is kMostNumaNodes or higher.
std::vector<NumaNode> numa_nodes(const std::filesystem::path& folder = "/sys/devices/system/node");

// Parses a list such as "0-3,8-11"; empty if it is malformed.
std::vector<std::size_t> parse_number_list(std::string_view text);

// The processors on which any thread of this process may run. A bound OpenMP runtime gives each thread its
// own processors.
std::vector<std::size_t> processors_of_all_threads();

// Bit n: at least one of the processors is on node n.
std::uint64_t nodes_of(std::span<const std::size_t> processors, std::span<const NumaNode> nodes);

using MemoryRanges = std::vector<std::span<const std::byte>>;

// Sets the node of the page at each address, or a negative number if the page is not in memory. Returns false
// if nodes cannot be determined.
using PageQuery = std::function<bool(std::span<void*> addresses, std::span<int> nodes)>;

// Uses move_pages(2), which some sandboxes refuse (Docker without the capability SYS_NICE) and kernels
// without NUMA lack.
bool query_pages(std::span<void*> addresses, std::span<int> nodes);

// Enough pages to determine a share within a percent or two, in less than a millisecond.
inline constexpr std::size_t kSampledPages = 2048;

// Counts the pages of the ranges on each node, in an evenly spread sample of at most `most` pages. Pages that
// are not in memory don't count. Nothing if nodes cannot be determined.
std::optional<NodePages> count_pages(const MemoryRanges& ranges, const PageQuery& query = query_pages,
                                     std::size_t most = kSampledPages);

// Describes this process, with its weights, cache and window.
RankNuma describe_numa(const MemoryRanges& weights, const MemoryRanges& cache, const MemoryRanges& window);

}  // namespace tp
