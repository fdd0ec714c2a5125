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

// Zeroed shared memory, equal size per rank. create() allocates each page in the NUMA domain of the rank
// that reads the page most often. A full /dev/shm therefore causes an error in create(), not on first access.
class HostMemory {
 public:
  // Returns the rank that most often reads byte `offset` of the memory of `rank`.
  using Reader = std::function<std::size_t(std::size_t rank, std::size_t offset)>;

  // Collective over `host`, whose ranks share a host. On failure, at least one rank stores the reason in
  // `why`, and some ranks return null. All ranks must then agree not to use shared memory. Throws CommError.
  static std::unique_ptr<HostMemory> create(MPI_Comm host, std::size_t bytes_of_rank, const Reader& reader,
                                            std::string& why);
  ~HostMemory();
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;

  std::byte* of_rank(std::size_t rank) const { return begin_ + rank * bytes_of_rank_; }
  // The pages that this rank has allocated. They may be in any rank's memory.
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
