// The memory that this process may still take.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace tp {

struct AvailableMemory {
  std::uint64_t bytes = UINT64_MAX;
  std::string limit;  // what says so: "MemAvailable", "memory.max of the cgroup /job_7"
};

// Physical memory, shared with everything else that runs on this host or in this process's control groups:
// what the kernel can give without swapping, or what the groups' limits leave if that is less. Page cache
// does not count as used, the kernel gives it back. `root` holds proc and sys, for tests.
AvailableMemory available_memory(const std::filesystem::path& root = "/");

// Bytes of address space that this process may still map: RLIMIT_AS (ulimit -v) less what it has mapped, or
// the largest number if there is no limit.
std::uint64_t available_addresses();

}  // namespace tp
