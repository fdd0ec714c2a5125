// Memory that the ranks of one host share.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include <mpi.h>

namespace tp {

// As many bytes for every rank, all zero. Each rank's come from the memory that is close to it, and are
// there: a full /dev/shm is noticed here and not where they are first touched.
class HostMemory {
 public:
  // Collective over `host`, whose ranks share a host. Null where it fails, and on at least one rank `why`
  // says for which reason; it is for the ranks to agree then to do without. Throws CommError.
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
