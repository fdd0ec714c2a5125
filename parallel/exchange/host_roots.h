// The first rank of each host, which exchange their hosts' sums.
#pragma once

#include "parallel/exchange/exchange.h"
#include "parallel/exchange/wire_all_reduce.h"

#include <optional>

#include <mpi.h>

namespace tp {

class HostRoots {
 public:
  // Collective over `comm`, to which the placement of `patience` belongs. Throws CommError.
  HostRoots(MPI_Comm comm, const Patience& patience);
  ~HostRoots();
  HostRoots(const HostRoots&) = delete;
  HostRoots& operator=(const HostRoots&) = delete;

  // On a host root, where there are several hosts; else null.
  WireAllReduce* wire() { return wire_ ? &*wire_ : nullptr; }
  Exchange* exchange() { return exchange_ ? &*exchange_ : nullptr; }

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
  std::optional<Exchange> exchange_;
  std::optional<WireAllReduce> wire_;
};

}  // namespace tp
