// MPI's life time in a program of ours.
#pragma once

#include <cstddef>
#include <string>

namespace tp {

// Initializes MPI for this process and finalizes it at the end. Without mpirun the process is the only rank.
//
// While an exception is on its way it is not finalized, because MPI would wait for ranks that wait for this
// one: whoever catches it says what has happened and aborts.
class MpiSession {
 public:
  // Throws CommError, on every rank, if srun has started several that cannot find each other.
  MpiSession();
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  std::size_t rank() const { return rank_; }
  std::size_t size() const { return size_; }

  // Ends every rank of the job at once with this exit status: for an error which the others cannot be told
  // of, because they wait inside a collective.
  [[noreturn]] static void abort(int status);

 private:
  std::size_t rank_ = 0;
  std::size_t size_ = 1;
};

// This process's rank and the number of ranks as the launcher says in the environment, before MPI is started:
// 0 and 1 without a launcher.
struct LaunchedRank {
  int rank = 0;
  int size = 1;
  bool by_mpirun = false;  // which ends all ranks when one has failed
};
LaunchedRank launched_rank();

// "Open MPI v4.1.4", the first line of what the library says of itself.
std::string mpi_library();

}  // namespace tp
