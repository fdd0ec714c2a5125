// The memory that this process can still allocate.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace tp {

struct AvailableMemory {
  std::uint64_t bytes = UINT64_MAX;
  std::string limit;  // source: "MemAvailable of /proc/meminfo", "memory.max of the cgroup /job_7"
};

// Physical memory available without swapping, or left under the limits of this process's control groups,
// whichever is less. All processes of the host or of these groups share it. Page cache counts as available.
// `root` contains proc and sys; tests pass another folder.
AvailableMemory available_memory(const std::filesystem::path& root = "/");

// Bytes of address space that this process can still map: RLIMIT_AS (ulimit -v) minus the mapped bytes. The
// mapped bytes are rounded up, so that every run of a program gets the same number. UINT64_MAX without a
// limit.
std::uint64_t available_addresses();

// Makes all threads share one heap if address space is limited. Separate heaps would reserve addresses, and
// the remaining space would depend on the order of threads. Call it before the first thread starts.
void share_heap_where_addresses_are_limited();

}  // namespace tp
