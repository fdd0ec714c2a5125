// A subcommand that runs on every rank.
#pragma once

#include "tp/communicator.h"
#include "tp/engine.h"

#include <functional>

namespace tp {

// Starts MPI, runs `body` on every rank and returns its exit status. An error becomes one message on stderr
// and status 1: an AgreedError is reported by rank 0 and all ranks return; any other error ends the whole
// job, because the other ranks cannot know of it.
int run_on_ranks(const std::function<int(Communicator&)>& body);

// Rank 0 runs `lead`, which steps the engine, while the others follow; returns the exit status. An error of
// rank 0 between steps is an AgreedError: the engine's end tells the others of it.
int lead_or_follow(Communicator& comm, Engine& engine, const std::function<int()>& lead);

}  // namespace tp
