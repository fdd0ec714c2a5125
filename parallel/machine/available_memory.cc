#include "parallel/machine/available_memory.h"

#include "parallel/machine/control_groups.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <vector>

#include <fmt/format.h>
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

namespace tp {
namespace {

namespace fs = std::filesystem;

// File names in a group's folder, which differ between cgroups v1 and v2.
struct GroupFiles {
  std::vector<const char*> limits;
  const char* usage;
  std::vector<const char*> page_cache;  // fields of memory.stat
};
const GroupFiles kVersion1 = {
    {"memory.limit_in_bytes"}, "memory.usage_in_bytes", {"total_inactive_file", "total_active_file"}};
// memory.high counts as a limit: above it, the kernel throttles a group almost to a standstill.
const GroupFiles kVersion2 = {
    {"memory.max", "memory.high"}, "memory.current", {"inactive_file", "active_file"}};

// The number in a file; nullopt if the file contains "max" or does not exist.
std::optional<std::uint64_t> number_in(const fs::path& path) {
  std::uint64_t number = 0;
  return std::ifstream(path) >> number ? std::optional(number) : std::nullopt;
}

std::uint64_t page_cache_of(const ControlGroup& group, const GroupFiles& files) {
  std::ifstream stat(group.folder / "memory.stat");
  std::uint64_t total = 0;
  std::string field;
  for (std::uint64_t bytes = 0; stat >> field >> bytes;) {
    if (std::ranges::find(files.page_cache, field) != files.page_cache.end()) total += bytes;
  }
  return total;
}

std::uint64_t difference(std::uint64_t a, std::uint64_t b) { return a > b ? a - b : 0; }

void take_min(AvailableMemory& min, std::uint64_t bytes, const std::string& limit) {
  if (bytes < min.bytes) min = {bytes, limit};
}

void look_at(const ControlGroup& group, AvailableMemory& min) {
  const GroupFiles& files = group.is_version_2 ? kVersion2 : kVersion1;
  const std::uint64_t used =
      difference(number_in(group.folder / files.usage).value_or(0), page_cache_of(group, files));
  for (const char* limit : files.limits) {
    if (const auto bytes = number_in(group.folder / limit))
      take_min(min, difference(*bytes, used), fmt::format("{} of the cgroup {}", limit, group.name.string()));
  }
}

std::optional<std::uint64_t> kernel_estimate(const fs::path& root) {
  std::ifstream meminfo(root / "proc/meminfo");
  std::string field;
  for (std::uint64_t kilobytes = 0; meminfo >> field >> kilobytes;) {
    if (field == "MemAvailable:") return kilobytes << 10;
    meminfo.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return std::nullopt;
}

}  // namespace

AvailableMemory available_memory(const fs::path& root) {
  AvailableMemory min;
  if (const auto bytes = kernel_estimate(root)) take_min(min, *bytes, "MemAvailable of /proc/meminfo");
  for (const ControlGroup& group : control_groups("memory", root)) look_at(group, min);
  return min;
}

// nullopt if there is no limit.
static std::optional<std::uint64_t> address_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  return limit.rlim_cur;
}

std::uint64_t available_addresses() {
  constexpr std::uint64_t kStep = std::uint64_t{64} << 20;  // bytes; exceeds the variation between runs
  const std::optional<std::uint64_t> limit = address_limit();
  if (!limit) return UINT64_MAX;
  const std::uint64_t pages = number_in("/proc/self/statm").value_or(0);
  const std::uint64_t used = pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return difference(*limit, (used + kStep - 1) / kStep * kStep);
}

void share_heap_where_addresses_are_limited() {
  // In bytes. This is glibc's default; setting it explicitly stops glibc from adjusting it.
  constexpr int kUsualThreshold = 128 << 10;
  if (!address_limit()) return;
  ::mallopt(M_ARENA_MAX, 1);
  ::mallopt(M_MMAP_THRESHOLD, kUsualThreshold);
}

}  // namespace tp
