// A subcommand that runs on every rank.
#pragma once

#include "launch/ranks/command_line.h"
#include "tp/communicator.h"
#include "tp/engine.h"
#include "tp/error.h"

#include <functional>

namespace tp {

// Starts MPI, runs `body` on every rank and returns its exit status. Ranks that were not started with the
// same `command` are an error. `timeout`: seconds after which a rank that waits for another one gives up; 0:
// never.
//
// An error becomes one message on stderr and status 1: an AgreedError is reported by rank 0 and all ranks
// return; any other error ends the whole job, because the other ranks cannot know of it.
int run_on_ranks(const CommandLine& command, double timeout, const std::function<int(Communicator&)>& body);

// An error that has been reported to the user.
class ReportedError : public Error {
 public:
  using Error::Error;
};

// Does on rank 0 what needs no other rank; throws what `work` throws. Ranks of mpirun that were started to do
// something else are a ReportedError.
void run_on_first_rank(const CommandLine& command, const std::function<void()>& work);

// Rank 0 runs `lead`, which steps the engine, while the others follow; returns the exit status. An error of
// rank 0 between steps is an AgreedError: the others learn of it when the engine is destroyed. With
// `verbose` it finally prints on which NUMA nodes the cache lies.
int lead_or_follow(Communicator& comm, Engine& engine, bool verbose, const std::function<int()>& lead);

}  // namespace tp
