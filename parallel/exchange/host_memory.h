// Shared memory of the ranks of one host.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <mpi.h>

namespace tp {

// An equal number of zeroed bytes per rank. Every page is allocated in the NUMA domain of the rank that reads
// it most, and here, so that a full /dev/shm is noticed here, not at the first access.
class HostMemory {
 public:
  // The rank that reads the byte at `offset` of what `rank` has most.
  using Reader = std::function<std::size_t(std::size_t rank, std::size_t offset)>;

  // Collective over `host`, whose ranks share a host. Returns null on ranks where it fails, with the reason
  // in `why` on at least one of them; the ranks then have to agree to go without. Throws CommError.
  static std::unique_ptr<HostMemory> create(MPI_Comm host, std::size_t bytes_of_rank, const Reader& reader,
                                            std::string& why);
  ~HostMemory();
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;

  std::byte* of_rank(std::size_t rank) const { return begin_ + rank * bytes_of_rank_; }
  // Memory that this rank has allocated, for any rank's bytes.
  const std::vector<std::span<const std::byte>>& own() const { return own_; }

 private:
  HostMemory(std::byte* begin, std::size_t bytes_of_rank, std::size_t ranks)
      : begin_(begin), bytes_of_rank_(bytes_of_rank), ranks_(ranks) {}

  std::byte* begin_;
  std::size_t bytes_of_rank_;  // whole pages
  std::size_t ranks_;
  std::vector<std::span<const std::byte>> own_;
};

}  // namespace tp
