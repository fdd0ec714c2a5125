// The memory that this process can still allocate.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace tp {

struct AvailableMemory {
  std::uint64_t bytes = UINT64_MAX;
  std::string limit;  // source of the limit: "MemAvailable", "memory.max of the cgroup /job_7"
};

// Physical memory available without swapping, or what the limits of this process's control groups leave, if
// that is less. It is shared with everything else on the host or in those groups. Page cache counts as
// available. `root` contains proc and sys; tests pass another folder.
AvailableMemory available_memory(const std::filesystem::path& root = "/");

// Bytes of address space that this process can still map: RLIMIT_AS (ulimit -v) minus what it has mapped,
// which is rounded up so that the same program gets the same number, or the largest integer without a limit.
std::uint64_t available_addresses();

// Makes all threads share one heap if address space is limited. Heaps of their own would reserve addresses,
// and the rest would depend on which thread comes first. Call it before the first thread starts.
void share_heap_where_addresses_are_limited();

}  // namespace tp
