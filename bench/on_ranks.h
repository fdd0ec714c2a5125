// Runs the work of a benchmark's main function on all ranks that mpirun started.
#pragma once

#include "bench/harness.h"
#include "parallel/exchange/mpi_session.h"
#include "tp/communicator.h"
#include "tp/mpi.h"

namespace tp::bench {

inline void add_weights(CLI::App& app, std::string& weights) {
  app.add_option("--weights", weights, "Type of the weights in memory")
      ->check(CLI::IsMember({"f32", "bf16", "int8", "int4"}));
}

// Parses the command line and calls work() with the communicator of all ranks. An exception ends all ranks
// with one message. `name`: the program's name.
template <class Work>
int run_on_ranks(const char* name, CLI::App& app, int argc, char** argv, const Work& work) {
  CLI11_PARSE(app, argc, argv);
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
