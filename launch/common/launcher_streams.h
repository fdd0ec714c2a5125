// The standard streams of the program that started this rank, such as mpirun.
#pragma once

#include "parallel/machine/launcher.h"

#include <string>

namespace tp {

// The path by which this host's system knows a descriptor of a process.
std::string descriptor_path(pid_t process, int descriptor);

// Whether a stream is the one that the launcher has given, and not a script's: echo Hello | tp-infer generate
bool is_launchers(const Launcher& launcher, int descriptor);

// Lets rank 0 write to mpirun's own streams if mpirun is that of Open MPI 5 and runs on this host. It holds
// text back until a line ends, so that a chat shows nothing, and prints the beginning of a line of one stream
// on the other one if that ends a line first (seen with 5.0.7). Does nothing if mpirun is to mark or to
// redirect the output. Call it before anything is written.
void write_past_open_mpi_5();

}  // namespace tp
