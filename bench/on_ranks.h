// Runs the work of a benchmark's main function on all ranks that mpirun started.
#pragma once

#include "parallel/exchange/mpi_session.h"
#include "tp/communicator.h"
#include "tp/mpi.h"

#include <cstdio>
#include <exception>

#include <fmt/format.h>

namespace tp::bench {

// Calls work() with the communicator of all ranks. An exception ends all ranks with one message. `name`: the
// program's name.
template <class Work>
int run_on_ranks(const char* name, const Work& work) {
  try {
    const MpiSession session;
    Communicator comm(MPI_COMM_WORLD);
    work(comm);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}: {}\n", name, error.what());
    MpiSession::abort(1);
  }
}

}  // namespace tp::bench
