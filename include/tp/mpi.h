// The connection between the library and a program's own use of MPI, and the only header of tp/ that needs
// <mpi.h>:
//
//   tp::Communicator comm(MPI_COMM_WORLD);
#pragma once

#include "tp/communicator.h"

#include <mpi.h>

namespace tp {

// An MPI_Comm, under a name that other headers can declare.
struct MpiHandle {
  MpiHandle(MPI_Comm comm) : value(comm) {}  // NOLINT(google-explicit-constructor): it stands for the handle
  operator MPI_Comm() const { return value; }  // NOLINT(google-explicit-constructor)

  MPI_Comm value;
};

}  // namespace tp
