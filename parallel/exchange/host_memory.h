#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <mpi.h>

namespace tp {

// Adjacent pages, in bytes from the first rank's part on.
struct PageRun {
  std::size_t begin;
  std::size_t bytes;
};

// Zeroed memory shared by the ranks of one host, with an equal part for each rank. create() allocates each
// page in the NUMA domain of the page's main reader, the rank that reads it most often. A full /dev/shm
// therefore causes an error in create(), not on first access.
class HostMemory {
 public:
  // Returns the main reader of byte `offset` in `rank`'s part.
  using Reader = std::function<std::size_t(std::size_t rank, std::size_t offset)>;

  // Collective over `host`, the ranks of one host. On failure, at least one rank stores the reason in
  // `why`, and any rank may return null. All ranks must then agree not to use the memory. Throws CommError.
  static std::unique_ptr<HostMemory> create(MPI_Comm host, std::size_t bytes_of_rank, const Reader& reader,
                                            std::string& why);
  ~HostMemory();
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;

  std::byte* of_rank(std::size_t rank) const { return begin_ + rank * bytes_of_rank_; }
  // The pages that this rank has allocated, which may be in any rank's part.
  const std::vector<std::span<const std::byte>>& own() const { return own_; }

 private:
  HostMemory(std::byte* begin, std::size_t bytes_of_rank, std::size_t ranks)
      : begin_(begin), bytes_of_rank_(bytes_of_rank), ranks_(ranks) {}

  std::byte* begin_;
  std::size_t bytes_of_rank_;  // multiple of the page size
  std::size_t ranks_;
  std::vector<std::span<const std::byte>> own_;
};

// The pages of `page` bytes whose main reader is `rank`, with adjacent pages merged. Each of `ranks` parts
// has `share` bytes, a multiple of `page`. If the main reader changes within a page, the page belongs to the
// main reader of its midpoint.
std::vector<PageRun> pages_read_by(std::size_t rank, std::size_t ranks, std::size_t share, std::size_t page,
                                   const HostMemory::Reader& reader);

}  // namespace tp
