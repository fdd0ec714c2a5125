// The lifetime of MPI in our programs.
#pragma once

#include "tp/communicator.h"

#include <cstddef>
#include <string>

namespace tp {

// Initializes MPI, and finalizes it on destruction. Without mpirun the process is the only rank.
//
// MPI is not finalized during stack unwinding, because that would wait for ranks that wait for this one:
// whoever catches the exception reports it and aborts.
class MpiSession {
 public:
  // Throws CommError on every rank if a launcher started several ranks that cannot connect: srun without
  // PMIx, or the launcher of another MPI.
  MpiSession();
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  std::size_t rank() const { return rank_; }
  std::size_t size() const { return size_; }

  // All ranks of the job. Collective; throws as Communicator's constructor.
  Communicator all_ranks(const WaitOptions& waits) const;

  // Ends every rank of the job immediately with this exit status: for an error while the others wait inside a
  // collective and cannot be told. Ends at least this process, within seconds, where mpirun's daemons cannot
  // be reached.
  [[noreturn]] static void abort(int status);

 private:
  std::size_t rank_ = 0;
  std::size_t size_ = 1;
};

// "Open MPI v4.1.4": the first line of the library's version string.
std::string mpi_library();

}  // namespace tp
