// The host roots: the lowest rank of each host. They exchange their hosts' sums.
#pragma once

#include "parallel/exchange/exchange.h"
#include "parallel/exchange/wire_all_reduce.h"

#include <optional>

#include <mpi.h>

namespace tp {

class HostRoots {
 public:
  // Collective over `comm`, the communicator of `patience.placement`. Throws CommError.
  HostRoots(MPI_Comm comm, const Patience& patience);
  ~HostRoots();
  HostRoots(const HostRoots&) = delete;
  HostRoots& operator=(const HostRoots&) = delete;

  // Null unless this rank is a host root and there are several hosts.
  WireAllReduce* wire() { return wire_ ? &*wire_ : nullptr; }
  Exchange* exchange() { return exchange_ ? &*exchange_ : nullptr; }

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
  std::optional<Exchange> exchange_;
  std::optional<WireAllReduce> wire_;
};

}  // namespace tp
