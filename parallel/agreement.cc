#include "parallel/agreement.h"

#include "parallel/mpi_call.h"
#include "tp/error.h"

#include <vector>

namespace tp {

void require_agreement(Communicator& comm, std::uint64_t fingerprint, const std::string& what,
                       const std::string& advice) {
  std::vector<std::uint64_t> all(comm.size());
  TP_MPI(MPI_Allgather(&fingerprint, 1, MPI_UINT64_T, all.data(), 1, MPI_UINT64_T, comm.handle()));
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    require<CommError>(all[rank] == all[0],
                       "the ranks disagree about {}: rank 0 has {:016x}, rank {} has {:016x}; {}", what,
                       all[0], rank, all[rank], advice);
  }
}

}  // namespace tp
