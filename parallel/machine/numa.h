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
  std::vector<std::size_t> processors;  // none of a node that only adds memory
};

// The nodes of this machine, read from a folder of sysfs. Empty if Linux does not list them, or if a node's
// number is kMostNumaNodes or higher.
std::vector<NumaNode> numa_nodes(const std::filesystem::path& folder = "/sys/devices/system/node");

// "0-3,8-11" as numbers; empty if it is no such list.
std::vector<std::size_t> parse_number_list(std::string_view text);

// The processors that any thread of this process may run on: a bound OpenMP runtime gives each thread its
// own.
std::vector<std::size_t> processors_of_all_threads();

// Bit n: some of the processors are on node n.
std::uint64_t nodes_of(std::span<const std::size_t> processors, std::span<const NumaNode> nodes);

using MemoryRanges = std::vector<std::span<const std::byte>>;

// Sets for each address the node of its page, or a negative number if it has none now. False if that cannot
// be known.
using PageQuery = std::function<bool(std::span<void*> addresses, std::span<int> nodes)>;

// By move_pages(2), which some sandboxes refuse (Docker's, without the capability SYS_NICE), and which
// kernels without NUMA lack.
bool query_pages(std::span<void*> addresses, std::span<int> nodes);

// Enough for a share to be right within a percent or two, in less than a millisecond.
inline constexpr std::size_t kSampledPages = 2048;

// How many of the ranges' pages lie on which node: at most `most` of them are looked at, evenly spread. Pages
// that are not in memory do not count. Nothing if it cannot be known.
std::optional<NodePages> count_pages(const MemoryRanges& ranges, const PageQuery& query = query_pages,
                                     std::size_t most = kSampledPages);

// Describes this process, with its weights, cache and window.
RankNuma describe_numa(const MemoryRanges& weights, const MemoryRanges& cache, const MemoryRanges& window);

}  // namespace tp
