// Shared memory of the ranks of one host.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include <mpi.h>

namespace tp {

// An equal number of zeroed bytes per rank, allocated in the rank's own NUMA domain. The pages are allocated
// here, so that a full /dev/shm is noticed here, not at the first access.
class HostMemory {
 public:
  // Collective over `host`, whose ranks share a host. Returns null on ranks where it fails, with the reason
  // in `why` on at least one of them; the ranks then have to agree to go without. Throws CommError.
  static std::unique_ptr<HostMemory> create(MPI_Comm host, std::size_t bytes_of_rank, std::string& why);
  ~HostMemory();
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;

  std::byte* of_rank(std::size_t rank) const { return begin_ + rank * bytes_of_rank_; }

 private:
  HostMemory(std::byte* begin, std::size_t bytes_of_rank, std::size_t ranks)
      : begin_(begin), bytes_of_rank_(bytes_of_rank), ranks_(ranks) {}

  std::byte* begin_;
  std::size_t bytes_of_rank_;  // whole pages
  std::size_t ranks_;
};

}  // namespace tp
