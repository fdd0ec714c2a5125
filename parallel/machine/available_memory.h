// The memory that this process can still allocate.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace tp {

struct AvailableMemory {
  std::uint64_t bytes = UINT64_MAX;
  std::string limit;  // name of the limit: "memory.max of the cgroup /job_7"
};

// The memory that the host can provide without swapping, or the memory left under the limits of this
// process's control groups, whichever is smaller. Other processes compete for this memory. Page cache counts
// as available. `root` is the folder that contains proc and sys; tests pass a fake one.
AvailableMemory available_memory(const std::filesystem::path& root = "/");

// Bytes of address space that this process can still map: RLIMIT_AS (ulimit -v) minus the mapped bytes, which
// are rounded up so that every run of a program gets the same result. UINT64_MAX if there is no limit.
std::uint64_t available_addresses();

// Makes all threads share one heap if address space is limited. Per-thread heaps would reserve part of it,
// and the remaining space would depend on the order in which threads start. Call it before any thread starts.
void share_heap_where_addresses_are_limited();

}  // namespace tp
