// Shared memory for the ranks of one host.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <mpi.h>

namespace tp {

// An equal number of zeroed bytes per rank. create() allocates each page in the NUMA domain of the rank that
// reads it most often. A full /dev/shm is therefore noticed in create(), not on first access.
class HostMemory {
 public:
  // The rank that most often reads the byte at `offset` of the bytes of `rank`.
  using Reader = std::function<std::size_t(std::size_t rank, std::size_t offset)>;

  // Collective over `host`, whose ranks share a host. Returns null on ranks where it fails, with the reason
  // in `why` on at least one of them. The ranks must then agree not to use shared memory. Throws CommError.
  static std::unique_ptr<HostMemory> create(MPI_Comm host, std::size_t bytes_of_rank, const Reader& reader,
                                            std::string& why);
  ~HostMemory();
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;

  std::byte* of_rank(std::size_t rank) const { return begin_ + rank * bytes_of_rank_; }
  // Pages that this rank has allocated, in any rank's bytes.
  const std::vector<std::span<const std::byte>>& own() const { return own_; }

 private:
  HostMemory(std::byte* begin, std::size_t bytes_of_rank, std::size_t ranks)
      : begin_(begin), bytes_of_rank_(bytes_of_rank), ranks_(ranks) {}

  std::byte* begin_;
  std::size_t bytes_of_rank_;  // multiple of the page size
  std::size_t ranks_;
  std::vector<std::span<const std::byte>> own_;
};

}  // namespace tp
