// Runs a program around an engine: starts MPI, opens the engine on every rank, and reports errors. The sample
// in tp/engine.h is a complete program.
#pragma once

#include "tp/communicator.h"
#include "tp/engine.h"

#include <functional>

namespace tp {

// Rank 0's part of a program. Returns the program's exit status.
using Lead = std::function<int(Engine& engine)>;

// Starts MPI, opens an engine on all ranks of the job, runs `lead` on rank 0 while the other ranks follow,
// and ends MPI. Returns this rank's exit status: on rank 0, the result of `lead`. Call this function once,
// because MPI cannot start again. If mpirun bound each rank to one core by default, this function gives the
// ranks all cores of the host. If a rank waits more than 10 s for another rank, stderr names the late rank.
//
// An error becomes one message on stderr and exit status 1. If all ranks know the error, because the engine
// cannot be opened or `lead` throws between steps, this function returns 1 on every rank. Any other error, or
// std::bad_alloc, ends the job with MPI_Abort, because the other ranks may be waiting for this rank.
int run(const EngineOptions& options, const Lead& lead);

// Opens an engine on the ranks of `comm`, for programs that start and end MPI themselves. Collective. Treats
// errors like the other run().
int run(Communicator& comm, const EngineOptions& options, const Lead& lead);

}  // namespace tp
