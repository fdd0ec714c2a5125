#include "parallel/exchange/host_roots.h"

#include "parallel/exchange/mpi_call.h"

#include <exception>

namespace tp {

namespace {

// In bytes. Over TCP, Open MPI sends up to 64 KiB, including the header, without waiting for the receiver.
constexpr std::size_t kLongestMessage = 60 * 1024;

}  // namespace

HostRoots::HostRoots(MPI_Comm comm, const Patience& patience) {
  const Placement& placement = patience.placement;
  if (placement.hosts.size() == 1) return;
  const bool is_root = placement.own_host().front() == placement.rank;
  TP_MPI(MPI_Comm_split(comm, is_root ? 0 : MPI_UNDEFINED, static_cast<int>(placement.rank), &comm_));
  if (!is_root) return;
  exchange_.emplace(comm_, patience, placement.hosts, kLongestMessage);
  wire_.emplace(*exchange_);
}

HostRoots::~HostRoots() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  // MPI_Comm_free is collective, but during stack unwinding, the other host roots may never call it.
  if (finalized == 0 && comm_ != MPI_COMM_NULL && std::uncaught_exceptions() == 0) MPI_Comm_free(&comm_);
}

}  // namespace tp
