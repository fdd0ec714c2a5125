// Connects the library to a program that uses MPI. No other header of tp/ needs <mpi.h>. Example:
//
//   tp::Communicator comm(MPI_COMM_WORLD);
#pragma once

#include "tp/communicator.h"

#include <mpi.h>

namespace tp {

// Wraps an MPI_Comm, so that other headers can forward-declare it.
struct MpiHandle {
  MpiHandle(MPI_Comm comm) : value(comm) {}  // NOLINT(google-explicit-constructor): callers pass an MPI_Comm
  operator MPI_Comm() const { return value; }  // NOLINT(google-explicit-constructor)

  MPI_Comm value;
};

}  // namespace tp
