// A subcommand that runs on every rank.
#pragma once

#include "launch/ranks/command_line.h"
#include "tp/communicator.h"
#include "tp/engine.h"
#include "tp/error.h"

#include <functional>

namespace tp {

// Starts MPI, runs `body` on every rank and returns its exit status. All ranks must have the same `command`.
// `timeout`: seconds after which a rank stops waiting for another rank; 0: never.
//
// An error becomes one message on stderr and status 1. Rank 0 reports an AgreedError, and all ranks return.
// Any other error ends the whole job, because the other ranks can't know it.
int run_on_ranks(const CommandLine& command, double timeout, const std::function<int(Communicator&)>& body);

// An error that has been reported to the user.
class ReportedError : public Error {
 public:
  using Error::Error;
};

// Does work on rank 0 that needs no other rank. Passes on exceptions of `work`. Throws ReportedError if
// mpirun started ranks with different commands.
void run_on_first_rank(const CommandLine& command, const std::function<void()>& work);

// Rank 0 runs `lead`, which steps the engine, while the other ranks follow. Returns the exit status. An error
// of rank 0 between steps is an AgreedError: the other ranks learn of it when the engine is destroyed. With
// `verbose`, finally prints the NUMA nodes of the cache.
int lead_or_follow(Communicator& comm, Engine& engine, bool verbose, const std::function<int()>& lead);

}  // namespace tp
