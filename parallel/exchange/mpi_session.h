#pragma once

#include "tp/communicator.h"

#include <cstddef>
#include <string>

namespace tp {

// Initializes MPI, and finalizes it on destruction. Without mpirun, the process is the only rank.
//
// During stack unwinding, MPI is not finalized: MPI_Finalize would wait for ranks that are waiting for this
// rank. The code that catches the exception must report the error and call abort().
class MpiSession {
 public:
  // Throws CommError on every rank if a launcher started several ranks that cannot connect to each other, for
  // example srun without PMIx, or the launcher of a different MPI library.
  MpiSession();
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  std::size_t rank() const { return rank_; }
  std::size_t size() const { return size_; }

  // A communicator of all ranks of the job. Collective; throws like Communicator's constructor.
  Communicator all_ranks(const WaitOptions& waits) const;

  // Ends every rank of the job immediately with this exit status. Call it after an error, because other ranks
  // may be waiting in a collective. If mpirun's daemons cannot be reached, this process still ends within
  // seconds.
  [[noreturn]] static void abort(int status);

 private:
  std::size_t rank_ = 0;
  std::size_t size_ = 1;
};

// The MPI library's name and version, such as "Open MPI v4.1.4" or "MPICH 4.0.2": the library's version
// string, up to the first comma or newline.
std::string mpi_library();

}  // namespace tp
