#include "parallel/machine/numa.h"

#include "parallel/machine/file_text.h"

#include <algorithm>
#include <charconv>
#include <string>

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace tp {
namespace {

// Empty if the file does not exist.
std::vector<std::size_t> list_in(const std::filesystem::path& path) {
  return parse_number_list(file_text(path));
}

bool contains(const std::vector<std::size_t>& numbers, std::size_t number) {
  return std::ranges::find(numbers, number) != numbers.end();
}

std::uintptr_t page_bytes() { return static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE)); }

// The first address of every `stride`-th page, counted across all ranges.
std::vector<void*> sample(const MemoryRanges& ranges, std::size_t stride) {
  std::vector<void*> addresses;
  std::size_t skipped = stride / 2;  // pages to skip in the next range
  for (const std::span<const std::byte> range : ranges) {
    if (range.empty()) continue;
    const auto first = reinterpret_cast<std::uintptr_t>(range.data()) / page_bytes();
    const auto last = (reinterpret_cast<std::uintptr_t>(range.data()) + range.size() - 1) / page_bytes();
    std::size_t page = first + skipped;
    for (; page <= last; page += stride) addresses.push_back(reinterpret_cast<void*>(page * page_bytes()));
    skipped = page - last - 1;
  }
  return addresses;
}

}  // namespace

std::vector<std::size_t> parse_number_list(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  std::vector<std::size_t> numbers;
  const char* next = text.data();
  const char* const end = text.data() + text.size();
  const auto read = [&](std::size_t& number) {
    const auto [rest, error] = std::from_chars(next, end, number);
    next = rest;
    return error == std::errc();
  };
  while (next != end) {
    std::size_t first = 0;
    if (!read(first)) return {};
    std::size_t last = first;
    if (next != end && *next == '-' && (++next, !read(last))) return {};
    for (std::size_t number = first; number <= last; ++number) numbers.push_back(number);
    if (next == end) break;
    if (*next != ',' || ++next == end) return {};
  }
  return numbers;
}

std::vector<NumaNode> numa_nodes(const std::filesystem::path& folder) {
  const std::vector<std::size_t> online = list_in(folder / "online");
  const bool tells_memory = std::filesystem::exists(folder / "has_memory");
  const std::vector<std::size_t> with_memory = tells_memory ? list_in(folder / "has_memory") : online;
  std::vector<NumaNode> nodes;
  for (const std::size_t id : online) {
    NumaNode node{id, list_in(folder / ("node" + std::to_string(id)) / "cpulist")};
    if (node.processors.empty() && !contains(with_memory, id)) continue;
    if (id >= kMaxNumaNodes) return {};
    nodes.push_back(std::move(node));
  }
  return nodes;
}

std::vector<std::size_t> processors_of_all_threads() {
  // On the largest machines, sched_getaffinity fails with glibc's cpu_set_t, which has too few bits.
  constexpr std::size_t kBits = 1 << 16;
  std::vector<bool> allowed(kBits, false);
  cpu_set_t* const mask = CPU_ALLOC(kBits);
  const auto add = [&](pid_t thread) {
    CPU_ZERO_S(CPU_ALLOC_SIZE(kBits), mask);
    if (::sched_getaffinity(thread, CPU_ALLOC_SIZE(kBits), mask) != 0) return;
    for (std::size_t processor = 0; processor < kBits; ++processor) {
      if (CPU_ISSET_S(processor, CPU_ALLOC_SIZE(kBits), mask)) allowed[processor] = true;
    }
  };
  add(0);
  std::error_code error;  // set if there is no /proc, or if a thread has ended
  for (std::filesystem::directory_iterator thread("/proc/self/task", error), end; !error && thread != end;
       thread.increment(error))
    add(static_cast<pid_t>(std::strtol(thread->path().filename().c_str(), nullptr, 10)));
  CPU_FREE(mask);
  std::vector<std::size_t> processors;
  for (std::size_t processor = 0; processor < kBits; ++processor) {
    if (allowed[processor]) processors.push_back(processor);
  }
  return processors;
}

std::uint64_t nodes_of(std::span<const std::size_t> processors, std::span<const NumaNode> nodes) {
  std::uint64_t bits = 0;
  for (const NumaNode& node : nodes) {
    if (std::ranges::any_of(processors, [&](std::size_t one) { return contains(node.processors, one); }))
      bits |= std::uint64_t{1} << node.id;
  }
  return bits;
}

bool query_pages(std::span<void*> addresses, std::span<int> nodes) {
  // Without target nodes, the call moves nothing and only reports the pages' nodes.
  return ::syscall(SYS_move_pages, 0, addresses.size(), addresses.data(), nullptr, nodes.data(), 0) == 0;
}

std::optional<NodePages> count_pages(const MemoryRanges& ranges, const PageQuery& query, std::size_t max) {
  std::size_t pages = 0;
  for (const std::span<const std::byte> range : ranges) pages += range.size() / page_bytes() + 1;
  std::vector<void*> addresses = sample(ranges, std::max<std::size_t>(1, (pages + max - 1) / max));
  std::vector<int> nodes(addresses.size(), -1);
  if (!addresses.empty() && !query(addresses, nodes)) return std::nullopt;
  NodePages counts;
  for (const int node : nodes) {
    if (node >= 0 && node < static_cast<int>(kMaxNumaNodes)) ++counts.on_node[node];
  }
  return counts;
}

RankNuma describe_numa(const MemoryRanges& weights, const MemoryRanges& cache, const MemoryRanges& window) {
  RankNuma numa;
  const std::vector<NumaNode> nodes = numa_nodes();
  numa.nodes = nodes.size();
  numa.core_nodes = nodes_of(processors_of_all_threads(), nodes);
  const std::optional<NodePages> of_weights = count_pages(weights);
  const std::optional<NodePages> of_cache = count_pages(cache);
  const std::optional<NodePages> of_window = count_pages(window);
  if (!of_weights || !of_cache || !of_window) return numa;
  numa.pages_known = 1;
  numa.weights = *of_weights;
  numa.cache = *of_cache;
  numa.window = *of_window;
  return numa;
}

}  // namespace tp
